import { PortCounter, type PortUse } from '../../lib/flows/ports-in-use.ts';
import { MOST_FLOWS, readFlows } from '../../lib/flows/read.ts';
import { Conntrack, type Flow } from '../../lib/netlink/conntrack.ts';
import { NetlinkError } from '../../lib/netlink/error.ts';
import { createIsLocal } from '../../lib/node/own-addresses.ts';
import { SystemError } from '../../lib/text/error.ts';
import { counted, truncated } from '../../lib/text/words.ts';
import type { Args } from './command.ts';
import type { OUTPUT_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import type { FlagValues } from './flags.ts';
import { printResult } from './print.ts';

const USERS_SHOWN = 5;

/**
 * Lists the destinations for which the node uses most source ports.
 *
 * @throws {SystemError} if connection tracking cannot be read
 */
export async function ports({ flags }: Args<typeof OUTPUT_FLAGS>): Promise<number> {
  const { flows, destinations } = await usesOf(flags).catch((error: unknown) => {
    if (!(error instanceof NetlinkError)) throw error;
    const remedy = error.failure === 'denied' ? '; run it as root with the capability NET_ADMIN' : '';
    throw new SystemError(`${error.message}${remedy}`);
  });
  const text = () =>
    [...destinations.map(useText), `${counted(flows, 'connection')} in conntrack\n`].join('');
  return printResult(flags.output, EXIT.ok, { flows, destinations }, text);
}

interface Uses {
  /** All that conntrack holds, of both families. */
  readonly flows: number;
  /** The busiest first. */
  readonly destinations: readonly PortUse[];
}

/** Reads conntrack twice: first it counts, then it asks who uses the ports of the busiest destinations. */
async function usesOf(flags: FlagValues): Promise<Uses> {
  using conntrack = new Conntrack();
  const flows = conntrack.flowCount();
  const counter = new PortCounter(flags['to-ports'], createIsLocal());
  const read = async (to: { add(flow: Flow): void }) => {
    if (!(await readFlows(conntrack, undefined, (flow) => to.add(flow))))
      throw new SystemError(`conntrack holds more than ${MOST_FLOWS} connections: they are not read`);
  };
  await read(counter);
  const details = counter.details();
  await read(details);
  return { flows, destinations: details.uses() };
}

function useText({ address, protocol, destination, inUse, ports: all, users }: PortUse): string {
  const userText = (user: (typeof users)[number]) => `${user.address} (${user.inUse})`;
  const percent = `${((100 * inUse) / all).toFixed(1)}%`.padStart(6);
  const who = truncated(users, USERS_SHOWN, userText, (more) => `${more} more`).join(', ');
  return `${percent}  ${inUse} of ${all} ports of ${address} to ${protocol} ${destination}, used by ${who}\n`;
}

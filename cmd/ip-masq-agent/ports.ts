import { readFile } from 'node:fs/promises';
import { release } from 'node:os';
import { type Address, formatAddress } from '../../lib/cidr/address.ts';
import {
  type End,
  type Holding,
  holdersOf,
  holdingsOf,
  portHolderText,
  type ReadFiltered,
} from '../../lib/flows/port-holders.ts';
import { PortCounter, type PortUse } from '../../lib/flows/ports-in-use.ts';
import { MOST_FLOWS, readFlows } from '../../lib/flows/read.ts';
import { endText, IPPROTO } from '../../lib/flows/words.ts';
import { Conntrack, type Flow } from '../../lib/netlink/conntrack.ts';
import { NetlinkError } from '../../lib/netlink/error.ts';
import { entryTimeouts } from '../../lib/node/conntrack-table.ts';
import { createIsLocal } from '../../lib/node/own-addresses.ts';
import { SystemError } from '../../lib/text/error.ts';
import { quote } from '../../lib/text/escape.ts';
import { counted, truncated } from '../../lib/text/words.ts';
import type { Args } from './command.ts';
import type { PORTS_FLAGS } from './command-flags.ts';
import { EXIT, UsageError } from './exit.ts';
import { endOf } from './flag-kinds.ts';
import type { FlagValues } from './flags.ts';
import { printResult } from './print.ts';

const [USERS_SHOWN, HOLDINGS_SHOWN, PORTS_SHOWN] = [5, 50, 10];

/**
 * Lists the destinations for which the node uses most source ports; who is behind an address and port; or what a pod holds.
 *
 * @throws {SystemError} if connection tracking cannot be read
 */
export async function ports(args: Args<typeof PORTS_FLAGS>): Promise<number> {
  const { json, text } = await answerTo(args).catch((error: unknown) => {
    if (!(error instanceof NetlinkError)) throw error;
    const remedy = error.failure === 'denied' ? '; run it as root with the capability NET_ADMIN' : '';
    throw new SystemError(`${error.message}${remedy}`);
  });
  return printResult(args.flags.output, EXIT.ok, json, () => text);
}

interface Answer {
  readonly json: object;
  readonly text: string;
}

async function answerTo({ operands: [end, protocol], flags }: Args<typeof PORTS_FLAGS>): Promise<Answer> {
  const { of, to } = flags;
  if (end === undefined) {
    if (to !== undefined)
      throw new UsageError('--to needs an address and port of the node: ports ADDRESS:PORT');
    if (of !== undefined) return await holdingsAnswer(of);
    const { flows, uses } = await usesOf(flags);
    const text = `${usesText(uses)}${counted(flows, 'connection')} in conntrack\n`;
    return { json: { flows, destinations: uses }, text };
  }
  if (of !== undefined) throw new UsageError('--of takes no address and port of the node: it lists all');
  const { address, port } = endOf(end) ?? {};
  if (address === undefined || port === undefined)
    throw new UsageError(
      `${quote(end)} is not an address and port: write 192.0.2.1:40001 or [2001:db8::1]:40001`,
    );
  if (protocol !== undefined && !isProtocol(protocol))
    throw new UsageError(`${quote(protocol)} is not known: write ${Object.keys(IPPROTO).join(', ')}`);
  return await holdersAnswer({ address, port }, protocol, to);
}

function isProtocol(text: string): text is keyof typeof IPPROTO {
  return Object.hasOwn(IPPROTO, text);
}

async function holdersAnswer(
  end: Parameters<typeof holdersOf>[1],
  protocol: keyof typeof IPPROTO | undefined,
  to: End | undefined,
): Promise<Answer> {
  using conntrack = new Conntrack();
  const { holders, others } = await holdersOf(filtered(conntrack), end, protocol, to);
  const asked = endText(end.address, end.port);
  const isOwn = createIsLocal()(end.address);
  const timeouts = await entryTimeouts(protocol, (path) => readFile(path, 'utf8').catch(() => undefined));
  const text = [
    ...holders.map((one) => `${portHolderText(one)}\n`),
    ...(holders.length > 0
      ? [`${counted(holders.length + others, 'connection')} behind ${asked} now\n`]
      : [`no connection is behind ${asked} now${isOwn ? '' : ', which is not an address of this node'}\n`]),
    ...(holders.length > 0 || !isOwn ? [] : [expiredText(timeouts)]),
  ];
  return { json: { end: asked, isOwn, connections: holders, others, timeouts }, text: text.join('') };
}

/** Reads flows as `flowsWith` does. A larger table is left alone where the kernel would tell all of it. */
function filtered(conntrack: Conntrack): ReadFiltered {
  const [major = 0, minor = 0] = release().split('.').map(Number);
  const asksKernel = major > 5 || (major === 5 && minor >= 17);
  return async (filter, take) => {
    const readsAll = !asksKernel || (filter.family === 'IPv6' && filter.protocol === undefined);
    if (readsAll && conntrack.flowCount() > MOST_FLOWS) throw tooMany();
    await conntrack.flowsWith(filter, asksKernel, take);
  };
}

function tooMany(): SystemError {
  return new SystemError(`conntrack holds more than ${MOST_FLOWS} connections: they are not read`);
}

/** What it means that there is no entry. */
function expiredText(timeouts: Readonly<Record<string, number>>): string {
  const lives = Object.entries(timeouts).map(([name, seconds]) => `${name} ${seconds} s`);
  return `an entry lives for a while after the last packet (${lives.join(', ')}); who was behind it earlier only a log of flows can say\n`;
}

async function holdingsAnswer(pod: Address): Promise<Answer> {
  using conntrack = new Conntrack();
  const { holdings, others } = await holdingsOf(filtered(conntrack), pod, createIsLocal()(pod));
  const count = holdings.reduce((sum, { inUse }) => sum + inUse, others);
  const lines = truncated(holdings, HOLDINGS_SHOWN, holdingText, (more) => `… and ${more} more destinations`);
  const text = [...lines, `${counted(count, 'connection')} of ${formatAddress(pod)} with ports of the node`];
  return {
    json: { pod: formatAddress(pod), holdings, others },
    text: text.map((line) => `${line}\n`).join(''),
  };
}

function holdingText({ protocol, address, destination, inUse, ports: some }: Holding): string {
  const shown = some.slice(0, PORTS_SHOWN);
  const more = inUse > shown.length ? `, and ${inUse - shown.length} more` : '';
  return `${counted(inUse, 'port')} of ${address} to ${protocol} ${destination}: ${shown.join(', ')}${more}`;
}

interface Uses {
  /** All that conntrack holds, of both families. */
  readonly flows: number;
  /** The busiest first. */
  readonly uses: readonly PortUse[];
}

/** Reads conntrack twice: first it counts, then it asks who uses the ports of the busiest destinations. */
async function usesOf(flags: FlagValues): Promise<Uses> {
  using conntrack = new Conntrack();
  const flows = conntrack.flowCount();
  const counter = new PortCounter(flags['to-ports'], createIsLocal());
  const read = async (to: { add(flow: Flow): void }) => {
    if (!(await readFlows(conntrack, undefined, (flow) => to.add(flow)))) throw tooMany();
  };
  await read(counter);
  const details = counter.details();
  await read(details);
  return { flows, uses: details.uses() };
}

function usesText(uses: readonly PortUse[]): string {
  const lines = uses.map(({ address, protocol, destination, inUse, ports: all, users }) => {
    const userText = (user: (typeof users)[number]) => `${user.address} (${user.inUse})`;
    const percent = `${((100 * inUse) / all).toFixed(1)}%`.padStart(6);
    const who = truncated(users, USERS_SHOWN, userText, (more) => `${more} more`).join(', ');
    return `${percent}  ${inUse} of ${all} ports of ${address} to ${protocol} ${destination}, used by ${who}\n`;
  });
  return lines.join('');
}

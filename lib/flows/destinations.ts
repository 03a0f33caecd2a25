import type { Address } from '../cidr/address.ts';
import { flowText } from './against.ts';
import type { JudgeFlow } from './judge.ts';
import { type FlowSource, readFlows } from './read.ts';

/** More backends of a Service hardly have more verdicts, and more flows hardly say more. */
const [MOST_DESTINATIONS, MOST_FLOWS_SHOWN] = [20, 10];

/** Flows to an address, or through it to others, as those to a Service go to its backends. */
export interface FlowsTo {
  /** Where they go, sorted, as the kernel tells them in the order of a hash. */
  readonly destinations: readonly Address[];
  /** Some of them. */
  readonly flows: readonly FlowTo[];
}

/** A flow, and how it left. */
export interface FlowTo {
  readonly destination: bigint;
  /** Such as `udp 10.244.1.2:4000 to 203.0.113.9:53`. */
  readonly text: string;
  /** The address that its packets left with; undefined if they kept theirs. */
  readonly as: Address | undefined;
  /** Whether it left otherwise than the config asks; undefined if the config is invalid. */
  readonly isAgainst: boolean | undefined;
}

/**
 * What conntrack shows of connections to these addresses. Rules at the hook postrouting see the translated destination.
 *
 * @param from only connections from this address
 * @param judge undefined if the config is invalid
 * @returns one for each address; undefined if conntrack holds too many
 * @throws {NetlinkError}
 */
export async function flowsTo(
  conntrack: FlowSource,
  addresses: readonly Address[],
  from: Address | undefined,
  judge: JudgeFlow | undefined,
): Promise<readonly FlowsTo[] | undefined> {
  const seen = addresses.map(({ family, value }) => ({
    family,
    value,
    to: new Set<bigint>(),
    flows: [] as FlowTo[],
  }));
  const isRead = await readFlows(conntrack, undefined, (flow) => {
    const { family, original, reply } = flow;
    if (from !== undefined && original.source !== from.value) return;
    for (const { to, flows, ...address } of seen) {
      if (address.family !== family || address.value !== original.destination) continue;
      if (to.size < MOST_DESTINATIONS) to.add(reply.source);
      if (flows.length === MOST_FLOWS_SHOWN) continue;
      const isKept = reply.destination === original.source;
      const as = isKept ? undefined : { family, value: reply.destination };
      // How one left that has ended does not count for the agent, but explains what somebody saw.
      const isAgainst = judge && judge({ ...flow, tcpState: undefined }) !== undefined;
      flows.push({ destination: reply.source, text: flowText(flow), as, isAgainst });
    }
  });
  if (!isRead) return undefined;
  return seen.map(({ family, to, flows }) => ({
    destinations: [...to].sort((a, b) => (a < b ? -1 : 1)).map((value) => ({ family, value })),
    flows,
  }));
}

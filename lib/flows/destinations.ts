import type { Address } from '../cidr/address.ts';
import { type FlowSource, readFlows } from './read.ts';

/** More backends of a Service hardly have more verdicts. */
const MOST_DESTINATIONS = 20;

/**
 * Where connections to these addresses go: to the address itself, or to others, as those to a Service go to its backends.
 * Rules at the hook postrouting see the translated destination.
 *
 * @param from only connections from this address
 * @returns some for each address, sorted, as the kernel tells them in the order of a hash;
 *   none for one without connections; nothing at all if conntrack holds too many
 * @throws {NetlinkError}
 */
export async function destinationsOf(
  conntrack: FlowSource,
  addresses: readonly Address[],
  from: Address | undefined,
): Promise<readonly (readonly Address[])[]> {
  const seen = addresses.map(({ family, value }) => ({ family, value, to: new Set<bigint>() }));
  const isRead = await readFlows(conntrack, undefined, ({ family, original, reply }) => {
    if (from !== undefined && original.source !== from.value) return;
    for (const one of seen)
      if (one.family === family && one.value === original.destination && one.to.size < MOST_DESTINATIONS)
        one.to.add(reply.source);
  });
  if (!isRead) return [];
  return seen.map(({ family, to }) =>
    [...to].sort((a, b) => (a < b ? -1 : 1)).map((value) => ({ family, value })),
  );
}

import { type Address, formatAddress } from '../cidr/address.ts';
import { type FlowSource, readFlows } from './read.ts';

/** What conntrack shows of connections to an address. */
export interface Destinations {
  /** Where they go instead, as those to a Service go to its backends; at most so many are kept. */
  readonly translated: readonly Address[];
  /** Whether any goes to the address itself. */
  readonly isDirect: boolean;
}

/** More backends of a Service hardly have more verdicts. */
const MOST_BACKENDS = 20;

/**
 * Where connections to these addresses go. Rules at the hook postrouting see the translated destination.
 *
 * @param from only connections from this address
 * @returns in the order of the addresses; undefined if conntrack holds too many
 * @throws {NetlinkError}
 */
export async function destinationsOf(
  conntrack: FlowSource,
  addresses: readonly Address[],
  from: Address | undefined,
): Promise<readonly Destinations[] | undefined> {
  const seen = addresses.map((address) => ({
    address,
    backends: new Map<string, Address>(),
    isDirect: false,
  }));
  const isRead = await readFlows(conntrack, undefined, ({ family, original, reply }) => {
    if (from !== undefined && original.source !== from.value) return;
    for (const one of seen) {
      if (one.address.family !== family || one.address.value !== original.destination) continue;
      const backend = { family, value: reply.source };
      if (reply.source === original.destination) one.isDirect = true;
      else if (one.backends.size < MOST_BACKENDS) one.backends.set(formatAddress(backend), backend);
    }
  });
  if (!isRead) return undefined;
  return seen.map(({ backends, isDirect }) => ({ translated: [...backends.values()], isDirect }));
}

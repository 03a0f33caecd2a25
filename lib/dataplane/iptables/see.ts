import type { Family } from '../../cidr/address.ts';
import type { Counter } from '../../netlink/expressions.ts';
import type { Seen } from '../look-memory.ts';
import type { Requests } from '../netlink.ts';

/** The agent's chain and the jumps to it, as the kernel sends them. */
export interface SeenChain extends Seen {
  /** The counts of the rules of the chain, in order; undefined for a rule that does not count. */
  readonly counters: readonly (Counter | undefined)[];
}

/** Reads the chain over netlink: iptables-nft keeps its rules in nf_tables. */
export async function seeChain(requests: Requests, family: Family, chain: string): Promise<SeenChain> {
  const nat = { family, table: 'nat' };
  const { id: generation } = await requests.generation();
  const own = await requests.chain({ ...nat, chain });
  if (own === undefined) return { generation, fingerprint: undefined, counters: [] };
  const rules = await requests.rules({ ...nat, chain });
  const jumps = await requests.rules({ ...nat, chain: 'POSTROUTING' }, chain);
  return {
    generation,
    fingerprint: [own, ...rules, ...jumps].map(({ fingerprint }) => fingerprint).join(''),
    counters: rules.map(({ counter }) => counter),
  };
}

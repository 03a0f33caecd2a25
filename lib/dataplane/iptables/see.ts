import type { Family } from '../../cidr/address.ts';
import type { Counter } from '../../netlink/expressions.ts';
import type { Seen } from '../memory.ts';
import type { Requests } from '../netlink.ts';
import { secondChain } from './chain.ts';

/** The agent's chains and the jumps to the first one, as the kernel sends them. */
export interface SeenChain extends Seen {
  /** The counts of the rules, in order; undefined for a rule that does not count. */
  readonly counters: readonly (Counter | undefined)[];
}

/** Reads the chain over netlink: iptables-nft keeps its rules in nf_tables. */
export async function seeChain(requests: Requests, family: Family, chain: string): Promise<SeenChain> {
  const nat = { family, table: 'nat' };
  const { id: generation } = await requests.generation();
  const own = await requests.chain({ ...nat, chain });
  if (own === undefined) return { generation, fingerprint: undefined, counters: [] };
  const first = await requests.rules({ ...nat, chain });
  const second = { ...nat, chain: secondChain(chain) };
  const leadsOn = first.some(({ target }) => target === second.chain);
  const rules = [...first, ...(leadsOn ? await requests.rules(second) : [])];
  const jumps = await requests.rules({ ...nat, chain: 'POSTROUTING' }, chain);
  return {
    generation,
    fingerprint: [own, ...rules, ...jumps].map(({ fingerprint }) => fingerprint).join(''),
    counters: rules.map(({ counter }) => counter),
  };
}

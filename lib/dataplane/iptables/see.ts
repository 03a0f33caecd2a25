import type { Family } from '../../cidr/address.ts';
import { targetOf } from '../../netlink/expressions.ts';
import type { Seen } from '../memory.ts';
import type { Requests } from '../netlink.ts';
import { secondChain } from './chain.ts';

/** The agent's chains and the jumps to the first one, as the kernel sends them; the second one too if nothing leads to it. */
export interface SeenChain extends Seen {
  /** The counts of the rules, in order; undefined for a rule that does not count. */
  readonly packets: readonly (bigint | undefined)[];
}

/** Reads the chain over netlink: iptables-nft keeps its rules in nf_tables. */
export async function seeChain(requests: Requests, family: Family, chain: string): Promise<SeenChain> {
  const nat = { family, table: 'nat' };
  const { id: generation } = await requests.generation();
  const second = { ...nat, chain: secondChain(chain) };
  const [own, other] = [await requests.chain({ ...nat, chain }), await requests.chain(second)];
  if (own === undefined && other === undefined) return { generation, fingerprint: undefined, packets: [] };
  const first = own === undefined ? [] : await requests.rules({ ...nat, chain });
  const rules = [...first, ...(other === undefined ? [] : await requests.rules(second))];
  const jumps = await requests.rules({ ...nat, chain: 'POSTROUTING' }, chain);
  const things = [own, other, ...rules, ...jumps];
  // If nothing of the agent leads to it, foreign rules that do so decide whether it can be deleted.
  const leadsOn = first.some(({ expressions }) => targetOf(expressions) === second.chain);
  return {
    generation,
    fingerprint: JSON.stringify([leadsOn ? '' : other?.use, things], withoutChanging),
    packets: rules.map((rule) => rule.packets),
  };
}

/** Of a chain, a rule and a counter: what changes although they stay. */
const CHANGING = ['use', 'handle', 'packets', 'bytes'];

/** A counter has numbers, and an expression that is not understood has its bytes. */
function withoutChanging(key: string, value: unknown): unknown {
  return CHANGING.includes(key) && typeof value !== 'string' ? undefined : value;
}

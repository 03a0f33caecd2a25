import type { Family } from '../../cidr/address.ts';
import type { Counter } from '../../netlink/expressions.ts';
import type { Rule, Snapshot } from '../../netlink/replies.ts';
import type { Seen } from '../memory.ts';
import type { Requests } from '../netlink.ts';
import { CHAINS, FROM_SET, SET, TABLE } from './names.ts';

/** The agent's table without the elements of its set of destinations, as the kernel sends it. */
export interface SeenTable extends Seen {
  /** The counts of the rules that count, in order. */
  readonly counters: readonly Counter[];
}

/** Reads the table over netlink. Of other chains and sets in it, only the number is in the fingerprint. */
export async function seeTable(requests: Requests, family: Family): Promise<SeenTable> {
  const name = { family, table: TABLE };
  const { id: generation } = await requests.generation();
  const table = await requests.table(name);
  if (table === undefined) return { fingerprint: undefined, generation, counters: [] };
  const set = await requests.set({ ...name, set: SET });
  const fromSet = await requests.set({ ...name, set: FROM_SET });
  const from = fromSet && (await requests.content({ ...name, set: FROM_SET }));
  const chains: (Snapshot | undefined)[] = [];
  const rules: Rule[] = [];
  for (const chain of CHAINS) {
    chains.push(await requests.chain({ ...name, chain }));
    rules.push(...(await requests.rules({ ...name, chain })));
  }
  return {
    fingerprint: [table, set, fromSet, ...(from ?? []), ...chains, ...rules]
      .map((one) => one?.fingerprint ?? 'none')
      .join(''),
    generation,
    counters: rules.flatMap(({ counter }) => counter ?? []),
  };
}

import type { Family } from '../../cidr/address.ts';
import type { Policy } from '../../policy/policy.ts';
import type { Comparison, Dataplane, Observed, Plan, RuleCount } from '../dataplane.ts';
import type { Host } from '../host.ts';
import { LookMemory } from '../look-memory.ts';
import type { RuleOptions } from '../options.ts';
import { Remakes } from '../remakes.ts';
import { type ListedTable, type NftablesObservation, observe } from './observe.ts';
import { type ElementChange, planRemoval, planTable } from './plan.ts';
import { type SeenTable, seeTable } from './see.ts';
import { SetMemory } from './set-memory.ts';
import { type NftablesTable, renderTable } from './table.ts';
import { openNft } from './tool.ts';
import { kernelFates } from './verdict.ts';

/** What a plan leads to. */
interface Result {
  readonly table: NftablesTable;
  readonly elements: ElementChange | undefined;
  readonly remakesChain: boolean;
  readonly preparation: string;
}

/** A look at the table. */
interface Look extends NftablesObservation {
  /** The generation of nf_tables of which it is; undefined if that is unknown. */
  readonly generation?: number | undefined;
  /** Call it if nothing in it differs from the policy. */
  readonly prove?: () => void;
}

/**
 * The policy as one interval set in the agent's table.
 *
 * @throws {DataplaneError} if nft is not installed, or too old
 */
export async function openNftables(options: RuleOptions, host: Host): Promise<Dataplane> {
  const tool = await openNft(host);
  const remakes = new Remakes();
  const memory = new LookMemory<ListedTable | undefined, SeenTable>(host.netlink, seeTable);
  const sets = new SetMemory(host.netlink);
  const results = new WeakMap<Plan, Result>();
  /** How often the chain was written again, without the set. */
  const remadeChains: Record<Family, number> = { IPv4: 0, IPv6: 0 };

  const look = async (family: Family, from: 'kernel' | 'memory'): Promise<Look> => {
    const seen = await memory.see(family);
    const known = from === 'memory' ? sets.known(family) : undefined;
    if (seen === undefined)
      return known === undefined ? observe(tool, family) : { family, table: { isOwn: true, ...known } };
    const terse = async () => (await observe(tool, family, true)).table;
    const { found, prove } = await memory.look(family, seen, terse, undefined);
    if (found?.isOwn !== true) return { family, table: found };
    const content = await sets.content(family, seen, from);
    if (content === undefined) return observe(tool, family);
    return { family, table: { ...found, elements: content.elements }, generation: content.generation, prove };
  };

  const observed = (one: Look): Observed => ({
    plan(policy) {
      const { family, generation } = one;
      const { plan, result, ...how } = planTable(one, policy, options, sets.canChange(family));
      if (plan !== undefined) results.set(plan, { table: result, ...how });
      else {
        one.prove?.();
        sets.hold(family, result, generation);
      }
      return plan;
    },
    remove: () => planRemoval(one),
    fates: () => kernelFates(one),
  });

  const write = async (plan: Plan): Promise<void> => {
    const { family, script } = plan;
    const { table, elements, remakesChain, preparation = '' } = results.get(plan) ?? {};
    if (table !== undefined && elements !== undefined) return await sets.change(family, elements, table);
    memory.forget(family);
    sets.forget(family);
    if (preparation !== '') await tool.run(preparation);
    await tool.run(script);
    if (remakesChain) remadeChains[family] += 1;
    if (table !== undefined) sets.hold(family, table);
  };

  /** The table with its counts, without the tool; undefined if that cannot be told. */
  const seeCounts = async (family: Family): Promise<ListedTable | undefined> => {
    const known = sets.known(family);
    const now = known && (await memory.recall(family));
    if (known === undefined || now?.found === undefined) return undefined;
    const elements = await sets.counts(family, known);
    const { shape } = now.found;
    const lines = shape.flatMap((line, index) => (COUNTS.test(line) ? [index] : []));
    if (elements === undefined || lines.length !== now.seen.counters.length) return undefined;
    const counts = new Map(now.seen.counters.map((count, index) => [lines[index] ?? 0, count]));
    return { isOwn: true, shape, counts, elements };
  };

  const compare = async (family: Family): Promise<Comparison> => {
    const now = await memory.compare(family);
    if (typeof now === 'object') return await sets.compare(family, now);
    // Who has changed the table may have changed its elements too.
    if (now === 'changed') sets.forget(family);
    return now;
  };

  return {
    name: `nftables ${tool.version}`,
    reason: 'set by --backend',
    iptables: undefined,
    observe: async (family, from = 'kernel') => observed(await look(family, from)),
    apply: (plan) => remakes.apply(plan, () => write(plan)),
    count: (policy) =>
      remakes.count(policy.family, async () =>
        countTable(
          (await seeCounts(policy.family)) ?? (await observe(tool, policy.family)).table,
          policy,
          options,
          remadeChains[policy.family],
        ),
      ),
    get compare() {
      return host.netlink?.isOver === false ? compare : undefined;
    },
  };
}

/** A rule that counts, as nft(8) prints it. */
const COUNTS = /(?:^| )counter (masquerade|snat|return)\b/;

/**
 * The counts of each element, of packets from elsewhere, and of all that is masqueraded. Exceptions have no element: they are counted with
 * everything else that is masqueraded.
 *
 * @param remadeChains each time, the counts of the rules begin at zero
 */
function countTable(
  table: ListedTable | undefined,
  policy: Policy,
  options: RuleOptions,
  remadeChains: number,
): readonly RuleCount[] {
  if (table?.isOwn !== true) return [];
  const wanted = renderTable(policy, options);
  const elements = Array.from(table.elements, ([text, count]): readonly RuleCount[] => {
    const entry = wanted.elements.get(text);
    return entry === undefined ? [] : [{ rule: text, entry, verdict: 'return', ...count }];
  });
  const rules = Array.from(table.counts, ([line, count]) => {
    const text = table.shape[line] ?? '';
    const verdict = COUNTS.exec(text)?.[1] === 'return' ? 'return' : 'masquerade';
    return { rule: `${text} #${remadeChains}`, entry: undefined, verdict, ...count } as const;
  });
  return [...elements.flat(), ...rules];
}

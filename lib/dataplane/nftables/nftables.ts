import type { Family } from '../../cidr/address.ts';
import type { Policy } from '../../policy/policy.ts';
import type { Dataplane, Observed, Plan, RuleCount } from '../dataplane.ts';
import type { Host } from '../host.ts';
import type { RuleOptions } from '../options.ts';
import { Remakes } from '../remakes.ts';
import { type ListedTable, type NftablesObservation, observe } from './observe.ts';
import { planRemoval, planTable } from './plan.ts';
import { type NftablesTable, renderTable } from './table.ts';
import { openNft } from './tool.ts';
import { kernelFates } from './verdict.ts';

/**
 * The policy as one interval set in the agent's table.
 *
 * @throws {DataplaneError} if nft is not installed, or too old
 */
export async function openNftables(options: RuleOptions, host: Host): Promise<Dataplane> {
  const tool = await openNft(host);
  const remakes = new Remakes();
  /** The table that this process wrote last, or found without a difference. */
  const known = new Map<Family, NftablesTable>();
  const results = new WeakMap<Plan, NftablesTable>();

  const observed = (observation: NftablesObservation): Observed => ({
    plan(policy) {
      const { plan, result } = planTable(observation, policy, options);
      if (plan === undefined) known.set(observation.family, result);
      else results.set(plan, result);
      return plan;
    },
    remove: () => planRemoval(observation),
    fates: () => kernelFates(observation),
  });

  return {
    name: `nftables ${tool.version}`,
    reason: 'set by --backend',
    iptables: undefined,
    async observe(family, from = 'kernel') {
      const table = from === 'memory' ? known.get(family) : undefined;
      return observed(
        table === undefined ? await observe(tool, family) : { family, table: { isOwn: true, ...table } },
      );
    },
    async apply(plan) {
      known.delete(plan.family);
      await remakes.apply(plan, () => tool.run(plan.script));
      const result = results.get(plan);
      if (result !== undefined) known.set(plan.family, result);
    },
    count: (policy) =>
      remakes.count(policy.family, async () =>
        countTable(await observe(tool, policy.family), policy, options),
      ),
  };
}

/**
 * The counts of each element, and of all that is masqueraded. Exceptions have no element: they are counted with
 * everything else that is masqueraded.
 */
function countTable(
  { table }: NftablesObservation<ListedTable>,
  policy: Policy,
  options: RuleOptions,
): readonly RuleCount[] {
  if (table?.isOwn !== true) return [];
  const wanted = renderTable(policy, options);
  const elements = Array.from(table.elements, ([text, count]): readonly RuleCount[] => {
    const entry = wanted.elements.get(text);
    return entry === undefined ? [] : [{ rule: text, entry, verdict: 'return', ...count }];
  });
  const masquerade = Array.from(table.counts, ([line, count]) => ({
    rule: table.shape[line] ?? '',
    entry: undefined,
    verdict: 'masquerade' as const,
    ...count,
  }));
  return [...elements.flat(), ...masquerade];
}

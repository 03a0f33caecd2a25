import type { Family } from '../../cidr/address.ts';
import { readNode } from '../../neighbours/read-node.ts';
import type { Dataplane, Observed, Plan } from '../dataplane.ts';
import type { Host } from '../host.ts';
import { Remakes } from '../remakes.ts';
import { countTable } from './count.ts';
import { type NftablesObservation, observe } from './observe.ts';
import type { NftablesOptions } from './options.ts';
import { planRemoval, planTable } from './plan.ts';
import { type NftablesTable, renderTable } from './table.ts';
import { openNft } from './tool.ts';
import { kernelVerdict } from './verdict.ts';

/**
 * The policy as one interval set in a table of our own.
 *
 * @throws {DataplaneError} where nft is not installed, or too old
 */
export async function openNftables(options: NftablesOptions, host: Host): Promise<Dataplane> {
  const tool = await openNft(host);
  const remakes = new Remakes();
  /** What this process has put into the kernel last, or found there as it should be. */
  const known = new Map<Family, NftablesTable>();
  const results = new WeakMap<Plan, NftablesTable>();

  const observed = (observation: NftablesObservation): Observed => ({
    plan(policy) {
      const { plan, result } = planTable(observation, policy, options);
      if (plan === undefined) known.set(observation.family, result);
      else results.set(plan, result);
      return plan;
    },
    planRemoval: () => planRemoval(observation),
    verdict: (address) => kernelVerdict(observation, options, address),
  });

  return {
    name: `nftables ${tool.version}`,
    reason: 'set by --backend',
    observe: async (family) => observed(await observe(tool, family)),
    recall(family) {
      const table = known.get(family);
      return table && observed({ family, table: { isOurs: true, ...table } });
    },
    size: (policy) => renderTable(policy, options).elements.size,
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
    survey: (families) => readNode(host, { families, ownChain: options.chain, iptables: undefined }),
  };
}

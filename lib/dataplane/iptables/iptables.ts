import { readNode } from '../../neighbours/read-node.ts';
import type { Dataplane } from '../dataplane.ts';
import type { Host } from '../host.ts';
import { Remakes } from '../remakes.ts';
import { renderChain } from './chain.ts';
import { countRules } from './count.ts';
import { type Detected, detectMode } from './detect.ts';
import { observe } from './observe.ts';
import type { IptablesOptions } from './options.ts';
import { plan, planRemoval } from './plan.ts';
import { createTool } from './tool.ts';
import { inTurns } from './turns.ts';
import { kernelVerdict } from './verdict.ts';

/**
 * The policy as one chain of `nat`, entered from POSTROUTING.
 *
 * @throws {DataplaneError} where no iptables of the mode is installed, or it refuses.
 */
export async function openIptables(options: IptablesOptions, host: Host): Promise<Dataplane> {
  return iptablesDataplane(await detectMode(host, options.mode), options, host);
}

/** The same, where the mode is known already. */
export function iptablesDataplane(
  { mode, suffix, version, reason }: Detected,
  options: IptablesOptions,
  host: Host,
): Dataplane {
  const { chain } = options;
  const remakes = new Remakes();
  const runner = inTurns(host, mode);
  const tools = { IPv4: createTool(runner, 'IPv4', suffix), IPv6: createTool(runner, 'IPv6', suffix) };
  return {
    name: `iptables ${version} (${mode})`,
    reason,
    async observe(family) {
      const observed = await observe(tools[family], chain);
      return {
        plan: (policy) => plan(observed, policy, options),
        planRemoval: () => planRemoval(observed, chain),
        verdict: (address) => kernelVerdict(observed, chain, address),
      };
    },
    recall: () => undefined,
    size: (policy) => renderChain(policy, options).length,
    apply: (transaction) =>
      remakes.apply(transaction, () => tools[transaction.family].restore(transaction.script)),
    count: (policy) =>
      remakes.count(policy.family, async () =>
        countRules(await tools[policy.family].listCounts(chain), policy, options),
      ),
    survey: (families) => readNode(host, { families, ownChain: chain, iptables: { mode, suffix } }),
  };
}

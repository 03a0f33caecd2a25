import type { Dataplane } from '../dataplane.ts';
import { readNode } from '../foreign/node.ts';
import type { Host } from '../host.ts';
import { type Detected, detectMode } from './detect.ts';
import { type IptablesObservation, observe } from './observe.ts';
import type { IptablesOptions } from './options.ts';
import { plan, planRemoval } from './plan.ts';
import { createTool } from './tool.ts';
import { kernelVerdict } from './verdict.ts';

/**
 * The policy as one chain of `nat`, entered from POSTROUTING.
 *
 * @throws {DataplaneError} where no iptables of the mode is installed, or it refuses.
 */
export async function openIptables(
  options: IptablesOptions,
  host: Host,
): Promise<Dataplane<IptablesObservation>> {
  return iptablesDataplane(await detectMode(host, options.mode), options, host);
}

/** The same, where the mode is known already. */
export function iptablesDataplane(
  { mode, suffix, version, reason }: Detected,
  options: IptablesOptions,
  host: Host,
): Dataplane<IptablesObservation> {
  const tools = { IPv4: createTool(host, 'IPv4', suffix), IPv6: createTool(host, 'IPv6', suffix) };
  return {
    name: `iptables ${version} (${mode})`,
    reason,
    observe: (family) => observe(tools[family], options.chain),
    plan: (observation, policy) => plan(observation, policy, options),
    planRemoval: (observation) => planRemoval(observation, options.chain),
    survey: (families) => readNode(host, { families, ownChain: options.chain, iptables: { mode, suffix } }),
    verdict: (observation, address) => kernelVerdict(observation, options.chain, address),
    apply: ({ family, script }) => tools[family].restore(script),
  };
}

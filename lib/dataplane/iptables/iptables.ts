import type { Dataplane } from '../dataplane.ts';
import type { Host } from '../host.ts';
import { detectMode } from './detect.ts';
import { type IptablesObservation, observe } from './observe.ts';
import type { IptablesOptions } from './options.ts';
import { plan, planRemoval } from './plan.ts';
import { createTool } from './tool.ts';

/**
 * The policy as one chain of `nat`, entered from POSTROUTING.
 *
 * @throws {DataplaneError} where no iptables of the mode is installed, or it refuses.
 */
export async function openIptables(
  options: IptablesOptions,
  host: Host,
): Promise<Dataplane<IptablesObservation>> {
  const { mode, suffix, version, reason } = await detectMode(host, options.mode);
  const tools = { IPv4: createTool(host, 'IPv4', suffix), IPv6: createTool(host, 'IPv6', suffix) };
  return {
    name: `iptables ${version} (${mode})`,
    reason,
    observe: (family) => observe(tools[family], options.chain),
    plan: (observation, policy) => plan(observation, policy, options),
    planRemoval: (observation) => planRemoval(observation, options.chain),
    apply: ({ family, script }) => tools[family].restore(script),
  };
}

import type { Prefix } from '../cidr/prefix.ts';
import type { Flow } from '../netlink/conntrack.ts';
import { createIsLocal } from '../node/own-addresses.ts';
import { podSources } from '../node/pod-routes.ts';
import type { Treatment } from '../policy/flow-counts.ts';
import { flowPolicy } from '../policy/flow-policy.ts';
import type { Policy } from '../policy/policy.ts';
import { isCounted, treatmentAgainst } from './against.ts';

/** How the kernel treats a flow that counts, if otherwise than policies ask; undefined if as they ask, or if it does not count. */
export type JudgeFlow = (flow: Flow) => Treatment | undefined;

/**
 * A function that judges flows by the addresses and the routes that the node has now, for commands beside the agent.
 *
 * @param policies only flows of their families count
 * @param accepted ranges of pods that do not count
 * @throws {NetlinkError} also if the node has too many routes
 */
export async function flowJudge(
  policies: readonly Policy[],
  accepted: readonly Prefix[],
): Promise<JudgeFlow> {
  const families = policies.map(({ family }) => family);
  const ends = { isOwn: createIsLocal(), isPod: await podSources(families, accepted) };
  const policy = flowPolicy(policies);
  return (flow) =>
    families.includes(flow.family) && isCounted(flow, ends)
      ? treatmentAgainst(flow, policy, ends.isOwn)
      : undefined;
}

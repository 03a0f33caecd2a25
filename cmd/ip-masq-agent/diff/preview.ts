import { type Goal, planFor } from '../../../lib/agent/reconcile.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import type { Dataplane, Plan } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { compilePolicy, type Family } from '../../../lib/policy/policy.ts';

/** What a sync would do in one family. */
export interface Preview {
  readonly family: Family;
  /** Undefined where nothing differs. */
  readonly plan: Plan | undefined;
  /** Why a family that is turned off could not be looked at for what an earlier run has left. */
  readonly unreadable?: DataplaneError;
}

/** What both families of the kernel are to hold. */
export function goalsFor(config: MergedConfig, enableIPv6: boolean): readonly Goal[] {
  return [
    { family: 'IPv4', policy: compilePolicy(config, 'IPv4') },
    { family: 'IPv6', policy: enableIPv6 ? compilePolicy(config, 'IPv6') : undefined },
  ];
}

/**
 * The plans that a sync would apply now. Nothing is written.
 *
 * @throws {DataplaneError}
 */
export async function preview(dataplane: Dataplane, goals: readonly Goal[]): Promise<readonly Preview[]> {
  const previews: Preview[] = [];
  for (const goal of goals) previews.push(await previewOne(dataplane, goal));
  return previews;
}

async function previewOne(dataplane: Dataplane, goal: Goal): Promise<Preview> {
  const { family } = goal;
  try {
    return { family, plan: await planFor(dataplane, goal) };
  } catch (error) {
    if (goal.policy !== undefined || !(error instanceof DataplaneError)) throw error;
    // Without ip6tables there can be nothing left.
    return {
      family,
      plan: undefined,
      ...(!['missing', 'unsupported'].includes(error.failure) && { unreadable: error }),
    };
  }
}

import type { Dataplane, Observed, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy } from '../policy/policy.ts';
import type { FamilyState } from './state.ts';

/** What a round has changed in one family. */
export interface FamilyChange {
  readonly plan: Plan;
  /** Whether the kernel no longer held what this process applied last. */
  readonly drifted: boolean;
  /** The kernel before. */
  readonly observed: Observed;
}

/** How the attempts of a round have ended in one family. */
export interface FamilyEnd {
  readonly policy: Policy;
  /** Undefined if nothing was written. */
  readonly change: FamilyChange | undefined;
  /** The kernel at the end; undefined if another program blocks the rules since they were written. */
  readonly observed: Observed | undefined;
  /** Whether the kernel holds the policy then. If it does not, another program changes the same rules. */
  readonly holds: boolean;
}

/** A family as it was read, and the plan after which the kernel holds its policy; undefined if it does. */
interface Observation {
  readonly policy: Policy;
  readonly observed: Observed;
  readonly plan: Plan | undefined;
}

/** What the attempts of a round have in common. */
export interface SyncOptions {
  /** What this process has applied before this round. */
  readonly before: ReadonlyMap<Family, FamilyState>;
  /** Takes the first change of each family that was planned. An attempt that fails may have written a part of it, or all. */
  readonly begun: Map<Family, FamilyChange>;
  /** Takes those of them that were written, also by an attempt that fails. */
  readonly changes: Map<Family, FamilyChange>;
  /** Called before anything is written. */
  readonly onApply: () => void;
}

/**
 * Tries to bring the policies into the kernel: observes and plans all families, applies all plans, and observes again. If a family
 * cannot be read, nothing is written. If another program blocks the rules since they were written, what this round has written is
 * told first, and the next round says what blocks it.
 *
 * @throws {DataplaneError} another attempt may succeed, if it is retryable
 */
export async function trySync(
  dataplane: Dataplane,
  policies: readonly Policy[],
  { before, begun, changes, onApply }: SyncOptions,
): Promise<readonly FamilyEnd[]> {
  const noteWritten = (family: Family): void => {
    const change = begun.get(family);
    if (change) changes.set(family, change);
  };
  const endOf = (policy: Policy, found?: Observation): FamilyEnd => {
    const holds = found !== undefined && found.plan === undefined;
    return { policy, change: changes.get(policy.family), observed: found?.observed, holds };
  };
  try {
    const observations = await observeAll(dataplane, policies, before);
    for (const { policy, observed, plan } of observations) {
      const { family } = policy;
      const last = before.get(family);
      const isKnown = last?.dataplane === dataplane;
      if (plan === undefined) noteWritten(family);
      else if (!begun.has(family)) {
        const drifted = isKnown && (last.policy === policy || observed.plan(last.policy) !== undefined);
        begun.set(family, { plan, observed, drifted });
      }
    }
    const plans = observations.flatMap(({ plan }) => plan ?? []);
    if (plans.length === 0) return observations.map((one) => endOf(one.policy, one));
    onApply();
    await all(
      plans.map(async (plan) => {
        await plan.apply();
        noteWritten(plan.family);
      }),
    );
    return (await observeAll(dataplane, policies, before)).map((one) => endOf(one.policy, one));
  } catch (error) {
    if (changes.size > 0 && error instanceof DataplaneError && error.failure === 'blocked')
      return policies.map((policy) => endOf(policy));
    throw error;
  }
}

function observeAll(
  dataplane: Dataplane,
  policies: readonly Policy[],
  before: SyncOptions['before'],
): Promise<readonly Observation[]> {
  return all(
    policies.map(async (policy) => {
      const observed = await dataplane.observe(policy.family);
      const last = before.get(policy.family);
      const isKnown = last?.dataplane === dataplane && last.policy === policy;
      // An unchanged generation means unchanged rules.
      const holds = isKnown && last.generation !== undefined && last.generation === observed.generation;
      return { policy, observed, plan: holds ? undefined : observed.plan(policy) };
    }),
  );
}

/** Waits until all have ended, so that none of them runs at the same time as the next attempt. */
export async function all<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}

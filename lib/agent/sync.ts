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

/** A family as it was read, and the plan after which the kernel holds its policy; undefined if it does. */
interface Observation {
  readonly policy: Policy;
  readonly observed: Observed;
  readonly plan: Plan | undefined;
}

export interface SyncOptions {
  /** What this process has applied before this round. */
  readonly before: ReadonlyMap<Family, FamilyState>;
  /** Takes the first change of each family that was written, also of an attempt that fails. */
  readonly changes: Map<Family, FamilyChange>;
  /** Called before anything is written. */
  readonly onApply: () => void;
}

/**
 * Tries to bring the policies into the kernel: observes and plans all families, applies all plans, and observes again. If a family
 * cannot be read, nothing is written.
 *
 * @returns how the kernel was found at the end, by policy. If a plan is left, another program changes the same rules. Undefined if one
 * blocks the rules since they were written: what this round has written is told first, and the next round says what blocks it
 * @throws {DataplaneError} another attempt may succeed, if it is retryable
 */
export async function trySync(
  dataplane: Dataplane,
  policies: readonly Policy[],
  options: SyncOptions,
): Promise<readonly Observation[] | undefined> {
  const { before, changes, onApply } = options;
  try {
    const observations = await observeAll(dataplane, policies);
    const planned = observations.flatMap((one) => changeOf(one, dataplane, before) ?? []);
    if (planned.length === 0) return observations;
    onApply();
    await all(
      planned.map(async (change) => {
        const { family } = change.plan;
        await change.plan.apply();
        if (!changes.has(family)) changes.set(family, change);
      }),
    );
    return await observeAll(dataplane, policies);
  } catch (error) {
    if (changes.size > 0 && error instanceof DataplaneError && error.failure === 'blocked') return undefined;
    throw error;
  }
}

function observeAll(dataplane: Dataplane, policies: readonly Policy[]): Promise<readonly Observation[]> {
  return all(
    policies.map(async (policy) => {
      const observed = await dataplane.observe(policy.family);
      return { policy, observed, plan: observed.plan(policy) };
    }),
  );
}

function changeOf(
  { policy, observed, plan }: Observation,
  dataplane: Dataplane,
  before: SyncOptions['before'],
): FamilyChange | undefined {
  if (plan === undefined) return undefined;
  const known = before.get(policy.family);
  const last = known?.dataplane === dataplane ? known.policy : undefined;
  const drifted = last !== undefined && (last === policy || observed.plan(last) !== undefined);
  return { plan, observed, drifted };
}

/** Waits until all have ended, so that none of them runs at the same time as the next attempt. */
export async function all<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}

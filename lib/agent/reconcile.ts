import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { type RetryOptions, retrying } from './retry.ts';

/** What one family of the kernel is to hold of ours. */
export interface Goal {
  readonly family: Family;
  /** Undefined for nothing. */
  readonly policy: Policy | undefined;
}

export interface ReconcileOptions extends RetryOptions {
  /** Whether to go by what this process remembers of the kernel, where it does: see `Dataplane.recall`. */
  readonly recall: boolean;
  readonly onApply: (plan: Plan) => void;
}

/** A transaction that fails so often, although what it is made for has not changed, will never succeed. */
const MOST_FAILURES = 3;

/**
 * Observes and plans every family, then applies what differs: a family that cannot be read stops all before
 * anything is written. Begins again where the kernel was busy, or changed in between.
 *
 * @returns the plan of each family that differed, as it was at first
 * @throws {DataplaneError}
 */
export async function reconcile(
  open: () => Promise<Dataplane>,
  goals: readonly Goal[],
  options: ReconcileOptions,
): Promise<ReadonlyMap<Family, Plan>> {
  const first = new Map<Family, Plan>();
  const failures = new Map<string, number>();
  let { recall } = options;
  await retrying(async () => {
    const dataplane = await open();
    const plans = await planAll(dataplane, goals, recall);
    recall = false;
    for (const plan of plans) {
      if (!first.has(plan.family)) first.set(plan.family, plan);
      options.onApply(plan);
      await applyCounting(dataplane, plan, failures);
    }
    if (plans.some(({ recheck }) => recheck) && (await planAll(dataplane, goals, false)).length > 0) {
      const remedy = 'find out which other program, or second agent, keeps these rules';
      throw new DataplaneError('raced', 'what was written a moment ago has been changed', remedy);
    }
  }, options);
  return first;
}

async function planAll(
  dataplane: Dataplane,
  goals: readonly Goal[],
  recall: boolean,
): Promise<readonly Plan[]> {
  const planned = await Promise.allSettled(goals.map((goal) => planFor(dataplane, goal, recall)));
  // All have ended: what is observed late must not mix with what is observed again after a failure.
  const failed = planned.find((one) => one.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return planned.flatMap((one) => (one.status === 'fulfilled' ? (one.value ?? []) : []));
}

/**
 * What makes the kernel hold what it is to hold; undefined where it does.
 *
 * @throws {DataplaneError}
 */
export async function planFor(
  dataplane: Dataplane,
  { family, policy }: Goal,
  recall = false,
): Promise<Plan | undefined> {
  const observed = (recall ? dataplane.recall(family) : undefined) ?? (await dataplane.observe(family));
  return policy === undefined ? observed.planRemoval() : observed.plan(policy);
}

async function applyCounting(dataplane: Dataplane, plan: Plan, failures: Map<string, number>): Promise<void> {
  try {
    await dataplane.apply(plan);
  } catch (error) {
    if (!(error instanceof DataplaneError) || error.failure !== 'raced') throw error;
    const count = (failures.get(plan.script) ?? 0) + 1;
    failures.set(plan.script, count);
    if (count < MOST_FAILURES) throw error;
    const remedy =
      'is a kernel module missing (xt_comment, xt_addrtype, nft_compat), or does a foreign rule lead into our chain?';
    throw new DataplaneError('refused', `${error.message} (${count} times, with nothing changed)`, remedy);
  }
}

import type { Dataplane, Observed, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { type RetryOptions, retrying } from './retry.ts';

/** How to reconcile, and whom to tell. */
interface ReconcileOptions extends RetryOptions {
  /** What the first attempt compares with; see `Dataplane.observe`. */
  readonly from: 'kernel' | 'memory';
  /** Whether to read back at once what a plan wants read back; not if an event will lead to that. */
  readonly rechecks: boolean;
  /** The policies that this process applied last. */
  readonly applied: ReadonlyMap<Family, Policy>;
  readonly onApply: (plan: Plan) => void;
}

/** What a sync changes in one family. */
export interface Change {
  readonly plan: Plan;
  /** Whether the kernel no longer held the policy that was applied last. */
  readonly drifted: boolean;
  /** The kernel before. */
  readonly observed: Observed;
}

/**
 * After so many failures of a first transaction the agent gives up, because it cannot succeed. If this process has
 * applied a policy before, another program changes the rules at the same moments, which must not stop the agent.
 */
const MOST_FAILURES = 3;

/**
 * Makes each family of the kernel hold its policy: observes and plans all families, then applies all plans. If a family
 * cannot be read, nothing is written. Starts again if the kernel is busy, or changes in between.
 *
 * @returns the first change of each family that differed
 * @throws {DataplaneError}
 */
export async function reconcile(
  dataplane: Dataplane,
  policies: readonly Policy[],
  options: ReconcileOptions,
): Promise<ReadonlyMap<Family, Change>> {
  const failures = new Map<string, number>();
  const first = new Map<Family, Change>();
  let { from } = options;
  await retrying(async () => {
    const source = from;
    from = 'kernel';
    const changes = await planAll(dataplane, policies, source, options.applied);
    await all(
      changes.map(async (change) => {
        const { plan } = change;
        if (!first.has(plan.family)) first.set(plan.family, change);
        options.onApply(plan);
        const isFirst = !options.applied.has(plan.family);
        const applied = isFirst ? applyCounting(dataplane, plan, failures) : dataplane.apply(plan);
        await applied.catch((error: unknown) => {
          // The kernel is not as this process remembers: this plan does not show what differs.
          if (source === 'memory') first.delete(plan.family);
          throw error;
        });
      }),
    );
    const isDone = !options.rechecks || changes.every(({ plan }) => !plan.recheck);
    if (!isDone && (await planAll(dataplane, policies, 'kernel', options.applied)).length > 0) {
      const remedy = 'find the other program, or the second agent, that writes these rules';
      throw new DataplaneError(
        'raced',
        'another program has changed the rules that were just written',
        remedy,
      );
    }
  }, options);
  return first;
}

/**
 * Removes the agent's rules of one family. Starts again if the kernel is busy, or changes in between.
 *
 * @returns the removed rules and jumps; undefined if there were none
 * @throws {DataplaneError}
 */
export async function removeRules(
  dataplane: Dataplane,
  family: Family,
  options: RetryOptions,
): Promise<readonly string[] | undefined> {
  const failures = new Map<string, number>();
  return retrying(async () => {
    const plan = (await dataplane.observe(family)).remove();
    if (plan !== undefined) await applyCounting(dataplane, plan, failures);
    return plan?.current;
  }, options);
}

async function planAll(
  dataplane: Dataplane,
  policies: readonly Policy[],
  from: 'kernel' | 'memory',
  applied: ReadonlyMap<Family, Policy>,
): Promise<readonly Change[]> {
  const changes = await all(
    policies.map(async (policy) => {
      const kernel = await dataplane.observe(policy.family, from);
      const plan = kernel.plan(policy);
      const before = applied.get(policy.family);
      const drifted = before !== undefined && (before === policy || kernel.plan(before) !== undefined);
      return plan && { plan, drifted, observed: kernel };
    }),
  );
  return changes.flatMap((change) => change ?? []);
}

/** Waits until all have ended, so that none of them runs at the same time as the next attempt. */
async function all<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  const settled = await Promise.allSettled(promises);
  const failed = settled.find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
  return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
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
      "check whether a kernel module is missing (xt_comment, xt_addrtype, nft_compat), or a foreign rule leads to the agent's chain";
    throw new DataplaneError('refused', `${error.message} (${count} times, with nothing changed)`, remedy);
  }
}

import type { Dataplane, Observed, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { type RetryOptions, retrying } from './retry.ts';

interface ReconcileOptions extends RetryOptions {
  /** The policies that this process has applied last; undefined at its first sync. */
  readonly applied: readonly Policy[] | undefined;
  readonly onApply: (plan: Plan) => void;
}

/** What a sync changes in one family. */
export interface FamilyChange {
  readonly plan: Plan;
  /** Whether the kernel no longer held what this process applied last. */
  readonly drifted: boolean;
  /** The kernel before. */
  readonly observed: Observed;
}

interface Reconciled {
  /** The first change of each family that differed. */
  readonly changes: ReadonlyMap<Family, FamilyChange>;
  /** Whether the kernel was found to hold all policies. If not, another program changes the same rules all the time. */
  readonly inSync: boolean;
  /** The generation of nf_tables in which it held the policy of each family; absent if it did not, or netlink does not tell it. */
  readonly generations: ReadonlyMap<Family, number>;
  /** The chains of each family that cannot be deleted, although no rule of the agent is in them, in words. */
  readonly undeletable: ReadonlyMap<Family, readonly string[]>;
}

/**
 * After so many failures of a first transaction the agent gives up, because it cannot succeed. If this process has
 * applied a policy before, another program changes the rules at the same moments, which only the timeout ends.
 */
const MOST_FAILURES = 3;

/**
 * Makes each family of the kernel hold its policy: observes and plans all families, applies all plans, and reads back what
 * it has written. If a family cannot be read, nothing is written. Starts again if the kernel is busy, or changes in between.
 *
 * @throws {DataplaneError}
 */
export async function reconcile(
  dataplane: Dataplane,
  policies: readonly Policy[],
  options: ReconcileOptions,
): Promise<Reconciled> {
  const { applied } = options;
  const changes = new Map<Family, FamilyChange>();
  const refused = new Set<Family>();
  const failures = new Failures();
  let observations: readonly FamilyObservation[] = [];
  const planAll = async () => {
    observations = await all(
      policies.map(async (policy) => {
        const observed = await dataplane.observe(policy.family, refused.has(policy.family));
        return { policy, observed, plan: observed.plan(policy) };
      }),
    );
    return observations.flatMap(({ policy, observed, plan }): readonly FamilyChange[] =>
      plan === undefined ? [] : [{ plan, observed, drifted: hasDrifted(observed, policy, applied) }],
    );
  };
  const inSync = await retrying(async () => {
    const planned = await planAll();
    if (planned.length === 0) return true;
    await all(
      planned.map(async (change) => {
        const { plan } = change;
        if (!changes.has(plan.family)) changes.set(plan.family, change);
        options.onApply(plan);
        await plan.apply().catch((error: unknown) => {
          refused.add(plan.family);
          throw failures.add(plan, error, applied === undefined);
        });
      }),
    );
    const differing = await planAll();
    for (const { plan, observed } of differing) {
      const before = planned.find((one) => one.plan.family === plan.family);
      // Without a generation, a program that deletes what was written looks like a tool that writes nothing.
      const canTell = observed.generation !== undefined || applied === undefined;
      if (before !== undefined && canTell && dataplane.iptables && hasWrittenNothing(before, observed))
        throw failures.toolWroteNothing(dataplane.name, `iptables${dataplane.iptables.suffix}-restore`, plan);
    }
    return differing.length === 0;
  }, options);
  const undeletable = observations.map(
    ({ policy, observed }) => [policy.family, observed.describeUndeletable(policy)] as const,
  );
  const generations = observations.flatMap(({ policy, observed: { generation } }) =>
    inSync && generation !== undefined ? [[policy.family, generation] as const] : [],
  );
  return { changes, inSync, generations: new Map(generations), undeletable: new Map(undeletable) };
}

interface FamilyObservation {
  readonly policy: Policy;
  readonly observed: Observed;
  readonly plan: Plan | undefined;
}

/** Whether the kernel, which does not hold the policy, does not hold what this process applied last either. */
function hasDrifted(observed: Observed, policy: Policy, applied: readonly Policy[] | undefined): boolean {
  const last = applied?.find(({ family }) => family === policy.family);
  return last !== undefined && (last === policy || observed.plan(last) !== undefined);
}

/** Whether no rule of the agent is there, and nobody was seen to write, the tool included. */
function hasWrittenNothing({ observed: before }: FamilyChange, now: Observed): boolean {
  return now.planRemoval() === undefined && now.generation === before.generation;
}

/** Failures of transactions, by their text. */
class Failures {
  readonly #counts = new Map<string, number>();

  /**
   * The error to throw for a transaction that has failed: another attempt follows, unless it cannot succeed.
   *
   * @param mayGiveUp whether it cannot succeed after some attempts, so that the agent gives up
   */
  add(plan: Plan, error: unknown, mayGiveUp: boolean): unknown {
    if (!(error instanceof DataplaneError) || error.failure !== 'raced') return error;
    if (!mayGiveUp || this.#count(plan) < MOST_FAILURES) return error;
    const remedy =
      "check whether a kernel module is missing (xt_comment, xt_addrtype, nft_compat), or a foreign rule leads to the agent's chain";
    const message = `${error.message} (${MOST_FAILURES} times, with nothing changed)`;
    return new DataplaneError('refused', message, remedy);
  }

  /** The error to throw for a tool that has ended without an error, and has written nothing. */
  toolWroteNothing(name: string, tool: string, plan: Plan): DataplaneError {
    const message = `${tool} (${name}) has ended without an error, but the kernel holds none of the ${plan.family} rules that it was to write`;
    if (this.#count(plan) < MOST_FAILURES)
      return new DataplaneError('raced', message, 'the next attempt follows');
    const remedy = `run ${tool} by hand on the node: is it a wrapper that does nothing?`;
    return new DataplaneError('refused', `${message} (${MOST_FAILURES} times)`, remedy);
  }

  #count({ script }: Plan): number {
    const count = (this.#counts.get(script) ?? 0) + 1;
    this.#counts.set(script, count);
    return count;
  }
}

/**
 * Removes the agent's rules of one family. Starts again if the kernel is busy, or changes in between.
 *
 * @returns the removed rules and jumps, undefined if there were none; and the chains that cannot be deleted, in words
 * @throws {DataplaneError}
 */
export async function removeRules(
  dataplane: Dataplane,
  family: Family,
  options: RetryOptions,
  isDry = false,
): Promise<{ readonly rules: readonly string[] | undefined; readonly undeletable: readonly string[] }> {
  const failures = new Failures();
  let rewrite = false;
  return retrying(async () => {
    const observed = await dataplane.observe(family, rewrite);
    const plan = observed.planRemoval();
    if (isDry) return { rules: plan?.current, undeletable: [] };
    await plan?.apply().catch((error: unknown) => {
      rewrite = true;
      throw failures.add(plan, error, true);
    });
    return { rules: plan?.current, undeletable: observed.describeUndeletable() };
  }, options);
}

/** Waits until all have ended, so that none of them runs at the same time as the next attempt. */
async function all<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}

import type { Dataplane, Observed, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy } from '../policy/policy.ts';
import type { FamilyState } from './state.ts';

/** What a round changes in one family. */
export interface FamilyChange {
  readonly plan: Plan;
  /** Whether the kernel no longer held what this process applied last. */
  readonly drifted: boolean;
  /** The kernel before. */
  readonly observed: Observed;
}

interface AttemptOptions {
  /** What this process has applied before. */
  readonly families: ReadonlyMap<Family, FamilyState>;
  readonly onApply: () => void;
}

/** The attempts of one round to bring the policies into the kernel, and what they have changed. */
export class Attempts {
  /** The first change of each family that differed. */
  readonly changes = new Map<Family, FamilyChange>();
  /** What could not be deleted after a change, in words. */
  readonly undeletable = new Map<Family, readonly string[]>();
  readonly #options: AttemptOptions;

  constructor(options: AttemptOptions) {
    this.#options = options;
  }

  /**
   * Observes and plans all families, applies all plans, and observes again. If a family cannot be read, nothing is written.
   *
   * @returns the generation of each family in which the kernel was found to hold its policy. Undefined if it does not hold one:
   * another program changes the same rules
   * @throws {DataplaneError} another attempt may succeed, if it is retryable
   */
  async attempt(
    dataplane: Dataplane,
    policies: readonly Policy[],
  ): Promise<ReadonlyMap<Family, number | undefined> | undefined> {
    return await this.#attempt(dataplane, policies).catch((error: unknown) => {
      // What this round has written is told first. The next round says what blocks it.
      if (this.changes.size > 0 && error instanceof DataplaneError && error.failure === 'blocked')
        return undefined;
      throw error;
    });
  }

  async #attempt(
    dataplane: Dataplane,
    policies: readonly Policy[],
  ): Promise<ReadonlyMap<Family, number | undefined> | undefined> {
    let observations = await this.#observe(dataplane, policies);
    const planned = observations.flatMap((one) => this.#changeOf(one, dataplane) ?? []);
    if (planned.length > 0) {
      await all(planned.map((change) => this.#apply(change)));
      observations = await this.#observe(dataplane, policies);
      for (const { family, policy, observed } of observations)
        this.undeletable.set(family, observed.describeUndeletable(policy));
    }
    if (observations.some(({ plan }) => plan !== undefined)) return undefined;
    return new Map(observations.map(({ family, observed: { generation } }) => [family, generation] as const));
  }

  #observe(dataplane: Dataplane, policies: readonly Policy[]) {
    return all(
      policies.map(async (policy) => {
        const { family } = policy;
        const observed = await dataplane.observe(family);
        return { family, policy, observed, plan: observed.plan(policy) };
      }),
    );
  }

  #changeOf(
    { policy, observed, plan }: { policy: Policy; observed: Observed; plan: Plan | undefined },
    dataplane: Dataplane,
  ): FamilyChange | undefined {
    if (plan === undefined) return undefined;
    const last = this.#applied(policy.family, dataplane);
    const drifted = last !== undefined && (last === policy || observed.plan(last) !== undefined);
    return { plan, observed, drifted };
  }

  async #apply(change: FamilyChange): Promise<void> {
    const { plan } = change;
    if (!this.changes.has(plan.family)) this.changes.set(plan.family, change);
    this.#options.onApply();
    await plan.apply();
  }

  /** The policy that this process has applied last in this dataplane. */
  #applied(family: Family, dataplane: Dataplane): Policy | undefined {
    const known = this.#options.families.get(family);
    return known?.dataplane === dataplane ? known.policy : undefined;
  }
}

/** Waits until all have ended, so that none of them runs at the same time as the next attempt. */
export async function all<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}

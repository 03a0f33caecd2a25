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

export interface SyncOptions {
  /** What this process has applied before. */
  readonly families: ReadonlyMap<Family, FamilyState>;
  readonly onApply: (plan: Plan) => void;
}

/**
 * After so many failures of a first transaction the agent gives up, because it cannot succeed. If this process has
 * applied a policy before, another program changes the rules at the same moments, which only the deadline ends.
 */
const MOST_FAILURES = 3;

/** The attempts of one round to bring the policies into the kernel. */
export class Sync {
  /** The first change of each family that differed. */
  readonly changes = new Map<Family, FamilyChange>();
  /** What could not be deleted after a change, in words. */
  readonly undeletable = new Map<Family, readonly string[]>();
  readonly #options: SyncOptions;
  readonly #refused = new Set<Family>();
  readonly #failures = new Failures();

  constructor(options: SyncOptions) {
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
    let observations = await this.#observe(dataplane, policies);
    const planned = observations.flatMap((one) => this.#changeOf(one, dataplane) ?? []);
    if (planned.length > 0) {
      await all(planned.map((change) => this.#apply(change, dataplane)));
      observations = await this.#observe(dataplane, policies);
      for (const { family, policy, observed, plan } of observations) {
        this.undeletable.set(family, observed.describeUndeletable(policy));
        const before = planned.find((one) => one.plan.family === family);
        if (before && plan) this.#requireWritten(before, observed, dataplane);
      }
    }
    if (observations.some(({ plan }) => plan !== undefined)) return undefined;
    return new Map(observations.map(({ family, observed: { generation } }) => [family, generation] as const));
  }

  #observe(dataplane: Dataplane, policies: readonly Policy[]) {
    return all(
      policies.map(async (policy) => {
        const { family } = policy;
        const observed = await dataplane.observe(family, this.#refused.has(family));
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

  async #apply(change: FamilyChange, dataplane: Dataplane): Promise<void> {
    const { plan } = change;
    const { family } = plan;
    if (!this.changes.has(family)) this.changes.set(family, change);
    this.#options.onApply(plan);
    try {
      await plan.apply();
    } catch (error) {
      this.#refused.add(family);
      throw this.#failures.add(plan, error, this.#applied(family, dataplane) === undefined);
    }
  }

  /** Throws if no rule of the agent is there, and nobody was seen to write, the tool included. */
  #requireWritten({ plan, observed: before }: FamilyChange, now: Observed, dataplane: Dataplane): void {
    const isFirst = this.#applied(plan.family, dataplane) === undefined;
    // Without a generation, a program that deletes what was written looks like a tool that writes nothing.
    const canTell = now.generation !== undefined || isFirst;
    const isSame = now.planRemoval() === undefined && now.generation === before.generation;
    if (!dataplane.iptables || !canTell || !isSame) return;
    const tool = `iptables${dataplane.iptables.suffix}-restore`;
    const message = `${tool} (${dataplane.name}) has ended without an error, but the kernel holds none of the ${plan.family} rules that it was to write`;
    const remedy = `run ${tool} by hand on the node: is it a wrapper that does nothing?`;
    throw this.#failures.add(plan, new DataplaneError('raced', message, remedy), true);
  }

  /** The policy that this process has applied last in this dataplane. */
  #applied(family: Family, dataplane: Dataplane): Policy | undefined {
    const known = this.#options.families.get(family);
    return known?.dataplane === dataplane ? known.policy : undefined;
  }
}

/** Transactions that have changed nothing, by their text. */
export class Failures {
  readonly #counts = new Map<string, number>();

  /**
   * The error to throw for a transaction that has changed nothing: another attempt follows, unless it cannot succeed.
   *
   * @param mayGiveUp whether it cannot succeed after some attempts, so that the agent gives up
   */
  add({ script }: Plan, error: unknown, mayGiveUp: boolean): unknown {
    if (!(error instanceof DataplaneError) || error.failure !== 'raced' || !mayGiveUp) return error;
    const count = (this.#counts.get(script) ?? 0) + 1;
    this.#counts.set(script, count);
    if (count < MOST_FAILURES) return error;
    const message = `${error.message} (${MOST_FAILURES} times, with nothing changed)`;
    return new DataplaneError('refused', message, `${error.remedy}; ${WHAT_ELSE}`);
  }
}

const WHAT_ELSE =
  "check whether a kernel module is missing (xt_comment, xt_addrtype, nft_compat), or a foreign rule leads to the agent's chain";

/** Waits until all have ended, so that none of them runs at the same time as the next attempt. */
async function all<Value>(promises: readonly Promise<Value>[]): Promise<readonly Value[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}

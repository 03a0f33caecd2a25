import { isDeepStrictEqual } from 'node:util';
import type { MergedConfig } from '../config/config.ts';
import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Place } from '../dataplane/open.ts';
import type { Logger } from '../log/log.ts';
import { ForeignWatch } from '../neighbours/watch.ts';
import { compilePolicy, type Family, keptFamilies, type Policy } from '../policy/policy.ts';
import type { Status } from '../status/status.ts';
import { type Goal, reconcile } from './reconcile.ts';
import { describeRemoval, leftoverPlaces, removeAll } from './remove.ts';
import { logChange } from './report.ts';
import type { RetryOptions } from './retry.ts';
import { Sources, type SourcesOptions } from './sources.ts';
import type { Wake } from './trigger.ts';

export interface AgentOptions extends SourcesOptions {
  /** Milliseconds until a busy kernel is an error. */
  readonly syncTimeout: number;
}

/** How the agent gets at the kernel. */
export interface Dataplanes {
  /**
   * The one to use.
   *
   * @throws {DataplaneError}
   */
  open(): Promise<Dataplane>;
  /**
   * All that the machine has.
   *
   * @throws {DataplaneError}
   */
  places(): Promise<readonly Place[]>;
}

/** What a sync has come to. */
export interface Synced {
  /** Of each family that is kept. */
  readonly policies: readonly Policy[];
  /** Whether anything was written. */
  readonly changed: boolean;
}

/** Keeps the kernel as the sources say: at the start, at each change, and at every resync. */
export class Agent {
  readonly #options: AgentOptions;
  readonly #dataplanes: Dataplanes;
  readonly #log: Logger;
  readonly #status: Status;
  readonly #sources: Sources;
  readonly #foreign: ForeignWatch;
  readonly #applied = new Map<Family, Policy>();
  #compiled: { readonly config: MergedConfig; readonly policies: readonly Policy[] } | undefined;
  #opened: Dataplane | undefined;
  #isAlone = false;

  /** @param dataplanes asked when there is a valid config for the first time: before, the kernel is not even read */
  constructor(options: AgentOptions, dataplanes: Dataplanes, log: Logger, status: Status) {
    this.#options = options;
    this.#dataplanes = dataplanes;
    this.#log = log;
    this.#status = status;
    this.#sources = new Sources(options, log, (loaded) => status.onLoad(loaded));
    this.#foreign = new ForeignWatch(log, status);
  }

  /**
   * Syncs until the signal aborts; the rules stay.
   *
   * @param onFirstSync what needs no haste, and may end the agent by failing
   * @param onChanged called after every sync that has changed the kernel, and after the first one
   * @throws {InvalidConfigError | DataplaneError} or an AbortError, where the signal ends a retry
   */
  run(
    signal: AbortSignal,
    onFirstSync: () => Promise<void> = async () => {},
    onChanged: () => void = () => {},
  ): Promise<void> {
    return this.#sources.follow(async (wake) => {
      const { policies, changed } = await this.sync(wake, signal);
      if (wake.reason === 'start') await onFirstSync();
      if (changed || wake.reason === 'start') onChanged();
      if (changed || this.#foreign.isDue(performance.now()))
        this.#foreign.look(await this.#dataplane(), policies);
    }, signal);
  }

  /** Milliseconds between two syncs, as the sources say. */
  get interval(): number {
    return this.#sources.interval;
  }

  /** Reads the sources again now. */
  reload(): void {
    this.#sources.reload();
  }

  /**
   * Reads the sources once and makes the kernel hold what they say.
   *
   * @throws {InvalidConfigError | DataplaneError}
   */
  async sync(wake: Wake, signal: AbortSignal): Promise<Synced> {
    const config = await this.#sources.load();
    const families = keptFamilies(this.#options.config.enableIPv6);
    const policies = this.#compile(config, families);
    const goals = policies.map((policy) => ({ family: policy.family, policy }));
    const plans = await this.#reconcile(goals, wake, signal).catch((error: unknown) => {
      this.#status.onFailure(families);
      throw error;
    });
    for (const policy of policies) this.#noteSync(policy, plans.get(policy.family), wake);
    if (!this.#isAlone) this.#isAlone = await this.#removeLeftovers(families, signal);
    return { policies, changed: plans.size > 0 };
  }

  /** The same objects as long as the config is the same one: what is made of a policy can be kept with it. */
  #compile(config: MergedConfig, families: readonly Family[]): readonly Policy[] {
    if (this.#compiled?.config !== config)
      this.#compiled = { config, policies: families.map((family) => compilePolicy(config, family)) };
    return this.#compiled.policies;
  }

  #noteSync(policy: Policy, plan: Plan | undefined, wake: Wake): void {
    const drifted = plan !== undefined && isDeepStrictEqual(this.#applied.get(policy.family), policy);
    this.#applied.set(policy.family, policy);
    this.#status.onSync({ policy, plan, drifted, wake, duration: (performance.now() - wake.since) / 1000 });
    if (plan === undefined)
      this.#log.debug({ family: policy.family, reason: wake.reason }, 'nothing to change');
    else logChange(this.#log, plan, wake, drifted);
  }

  /**
   * An earlier run may have used another dataplane or mode, or IPv6. What it has left goes only now that the rules of
   * this run are in the kernel: there is no moment without any.
   *
   * @returns whether nothing is left
   */
  async #removeLeftovers(kept: readonly Family[], signal: AbortSignal): Promise<boolean> {
    const used = await this.#dataplane();
    const what = 'cannot remove what an earlier run may have left in another dataplane, mode or family';
    try {
      const places = leftoverPlaces(await this.#dataplanes.places(), used, kept);
      const removals = await removeAll(places, this.#retryOptions(signal));
      for (const removal of removals) {
        const { family, outcome } = removal;
        if (outcome.kind === 'removed')
          this.#log.info(
            { family, rules: outcome.rules },
            `left by an earlier run: ${describeRemoval(removal)}`,
          );
        if (outcome.kind === 'failed') this.#log.warn({ family }, `${what}: ${describeRemoval(removal)}`);
      }
      return removals.every(({ outcome }) => outcome.kind !== 'failed');
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      this.#log.warn(`${what}: ${error.message}; ${error.remedy}`);
      return false;
    }
  }

  #reconcile(
    goals: readonly Goal[],
    { reason }: Wake,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<Family, Plan>> {
    return reconcile(() => this.#dataplane(), goals, {
      ...this.#retryOptions(signal),
      // What others change is found, and repaired, at the resync.
      recall: reason === 'change',
      onApply: ({ family, script }) =>
        this.#log.trace({ family, transaction: script.split('\n') }, 'applying'),
    });
  }

  #retryOptions(signal: AbortSignal): RetryOptions {
    return {
      timeoutMs: this.#options.syncTimeout,
      signal,
      onRetry: (error, attempt, waited) => {
        this.#log.warn({ attempt, failure: error.failure }, `trying again: ${error.message}`);
        this.#status.onRetry(error, waited / 1000);
      },
    };
  }

  async #dataplane(): Promise<Dataplane> {
    if (this.#opened === undefined) {
      this.#opened = await this.#dataplanes.open();
      this.#status.onDataplane(this.#opened);
      this.#log.info(`using ${this.#opened.name}: ${this.#opened.reason}`);
    }
    return this.#opened;
  }
}

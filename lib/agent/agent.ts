import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import { compilePolicy, type Policy } from '../policy/policy.ts';
import type { Logger } from '../telemetry/log.ts';
import { orNothing } from './cleanup.ts';
import { fingerprint } from './fingerprint.ts';
import { ForeignWatch } from './foreign.ts';
import { type Goal, reconcile } from './reconcile.ts';
import { logChange } from './report.ts';
import { Sources, type SourcesOptions } from './sources.ts';
import type { Wake } from './trigger.ts';

type Family = Policy['family'];

export interface AgentOptions extends SourcesOptions {
  /** Milliseconds until a busy kernel is an error. */
  readonly syncTimeout: number;
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
  readonly #open: () => Promise<Dataplane>;
  readonly #log: Logger;
  readonly #sources: Sources;
  readonly #foreign: ForeignWatch;
  readonly #applied = new Map<Family, string>();
  #opened: Dataplane | undefined;
  #removedIPv6 = false;

  /** @param open called when there is a valid config for the first time: before, the kernel is not even read */
  constructor(options: AgentOptions, open: () => Promise<Dataplane>, log: Logger) {
    this.#options = options;
    this.#open = open;
    this.#log = log;
    this.#sources = new Sources(options, log);
    this.#foreign = new ForeignWatch(log);
  }

  /**
   * Syncs until the signal aborts; the rules stay.
   *
   * @throws {InvalidConfigError | DataplaneError} or an AbortError, where the signal ends a retry
   */
  run(signal: AbortSignal): Promise<void> {
    return this.#sources.follow(async (wake) => {
      const { policies, changed } = await this.sync(wake, signal);
      if (wake.reason === 'start' || changed) await this.#foreign.look(await this.#dataplane(), policies);
    }, signal);
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
    const families: readonly Family[] = this.#options.config.enableIPv6 ? ['IPv4', 'IPv6'] : ['IPv4'];
    const policies = families.map((family) => compilePolicy(config, family));
    const goals = policies.map((policy) => ({ family: policy.family, policy }));
    const plans = await this.#reconcile(goals, signal);
    for (const policy of policies) this.#logSync(policy, plans.get(policy.family), wake);
    if (!this.#options.config.enableIPv6 && !this.#removedIPv6) await this.#removeLeftIPv6(signal);
    return { policies, changed: plans.size > 0 };
  }

  #logSync(policy: Policy, plan: Plan | undefined, wake: Wake): void {
    const wanted = fingerprint(policy);
    const drifted = this.#applied.get(policy.family) === wanted;
    this.#applied.set(policy.family, wanted);
    if (plan === undefined)
      this.#log.debug({ family: policy.family, reason: wake.reason }, 'nothing to change');
    else logChange(this.#log, plan, wake, drifted);
  }

  /** A run with --enable-ipv6 may have left a chain behind. */
  async #removeLeftIPv6(signal: AbortSignal): Promise<void> {
    try {
      const left = this.#reconcile([{ family: 'IPv6', policy: undefined }], signal);
      const plan = (await orNothing('IPv6', left))?.get('IPv6');
      if (plan !== undefined)
        this.#log.info({ family: 'IPv6' }, `IPv6: removed our chain and ${plan.removed.length} rules`);
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      const what = 'cannot remove the IPv6 rules that an earlier run may have left';
      this.#log.warn(`${what}: ${error.message}; ${error.remedy}`);
      return;
    }
    this.#removedIPv6 = true;
  }

  #reconcile(goals: readonly Goal[], signal: AbortSignal): Promise<ReadonlyMap<Family, Plan>> {
    return reconcile(() => this.#dataplane(), goals, {
      timeoutMs: this.#options.syncTimeout,
      signal,
      onApply: ({ family, script }) =>
        this.#log.trace({ family, transaction: script.split('\n') }, 'applying'),
      onRetry: (error, attempt) =>
        this.#log.warn({ attempt, failure: error.failure }, `trying again: ${error.message}`),
    });
  }

  async #dataplane(): Promise<Dataplane> {
    if (this.#opened === undefined) {
      this.#opened = await this.#open();
      this.#log.info(`using ${this.#opened.name}: ${this.#opened.reason}`);
    }
    return this.#opened;
  }
}

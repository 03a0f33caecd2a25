import { createHash } from 'node:crypto';
import type { ConfigOptions, MergedConfig } from '../config/config.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import type { Problem } from '../config/problem.ts';
import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import { compilePolicy, type Policy } from '../policy/policy.ts';
import type { Logger } from '../telemetry/log.ts';
import { type Goal, reconcile } from './reconcile.ts';
import { logChange, logConfig } from './report.ts';
import { Trigger, type Wake } from './trigger.ts';
import { watchDirectory } from './watch.ts';

type Family = Policy['family'];

export interface AgentOptions {
  readonly configDir: string;
  readonly config: ConfigOptions;
  /** Milliseconds between two syncs, where no source says otherwise. */
  readonly resyncInterval: number;
  /** Milliseconds until a busy kernel is an error. */
  readonly syncTimeout: number;
}

/** The config is not to be applied; every problem is in the list. The kernel was not touched. */
export class InvalidConfigError extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    const errors = problems.filter(({ severity }) => severity === 'error');
    super(
      `the config has ${errors.length} error${errors.length === 1 ? '' : 's'}; the rules applied last stay`,
    );
    this.problems = errors;
  }
}

/** Keeps the kernel as the sources say: at the start, at each change, and at every resync. */
export class Agent {
  readonly #options: AgentOptions;
  readonly #open: () => Promise<Dataplane>;
  readonly #log: Logger;
  readonly #trigger = new Trigger();
  readonly #applied = new Map<Family, string>();
  #opened: Dataplane | undefined;
  #projected = false;
  #reported = '';
  #removedIPv6 = false;

  /** @param open called when there is a valid config for the first time: before, the kernel is not even read */
  constructor(options: AgentOptions, open: () => Promise<Dataplane>, log: Logger) {
    this.#options = options;
    this.#open = open;
    this.#log = log;
  }

  /**
   * Syncs until the signal aborts; the rules stay.
   *
   * @throws {InvalidConfigError | DataplaneError} or an AbortError, where the signal ends a retry
   */
  async run(signal: AbortSignal): Promise<void> {
    watchDirectory(
      this.#options.configDir,
      {
        onChange: () => this.#trigger.fire('change'),
        onLost: (error) =>
          this.#log.warn(
            `cannot watch the config directory, changes wait for the resync: ${error.message} (ENOSPC, EMFILE: raise fs.inotify.max_user_watches or max_user_instances)`,
          ),
        isProjected: () => this.#projected,
      },
      signal,
    );
    this.#trigger.fire('start');
    let interval = this.#options.resyncInterval;
    for (;;) {
      const wake = await this.#trigger.next(interval, signal);
      if (wake === undefined) return;
      interval = await this.sync(wake, signal);
    }
  }

  /** Reads the sources again now. */
  reload(): void {
    this.#trigger.fire('signal');
  }

  /**
   * Reads the sources once and makes the kernel hold what they say.
   *
   * @returns milliseconds until the next sync
   * @throws {InvalidConfigError | DataplaneError}
   */
  async sync(wake: Wake, signal: AbortSignal): Promise<number> {
    const config = await this.#load();
    const families: readonly Family[] = this.#options.config.enableIPv6 ? ['IPv4', 'IPv6'] : ['IPv4'];
    const policies = families.map((family) => compilePolicy(config, family));
    const goals = policies.map((policy) => ({ family: policy.family, policy }));
    const plans = await this.#reconcile(goals, signal);
    for (const policy of policies) this.#logSync(policy, plans.get(policy.family), wake);
    if (!this.#options.config.enableIPv6 && !this.#removedIPv6) await this.#removeLeftIPv6(signal);
    return config.resyncInterval ?? this.#options.resyncInterval;
  }

  /**
   * Removes all rules of ours.
   *
   * @throws {DataplaneError}
   */
  async cleanUp(signal: AbortSignal): Promise<void> {
    if (this.#options.config.enableIPv6) await this.#remove(['IPv4', 'IPv6'], signal);
    else {
      await this.#remove(['IPv4'], signal);
      await this.#removeLeftIPv6(signal);
    }
  }

  async #load(): Promise<MergedConfig> {
    const loaded = await loadConfig(this.#options.configDir, this.#options.config, this.#projected);
    this.#projected = loaded.projected;
    this.#report(loaded);
    if (loaded.config === undefined) throw new InvalidConfigError(loaded.problems);
    return loaded.config;
  }

  /** Once for each change of what the sources say, or of what is wrong with it. */
  #report(loaded: LoadedConfig): void {
    const found = fingerprint([loaded.config, loaded.problems]);
    if (found !== this.#reported) logConfig(this.#log, loaded);
    this.#reported = found;
  }

  #logSync(policy: Policy, plan: Plan | undefined, wake: Wake): void {
    const wanted = fingerprint(policy);
    const drifted = this.#applied.get(policy.family) === wanted;
    this.#applied.set(policy.family, wanted);
    if (plan === undefined)
      this.#log.debug({ family: policy.family, reason: wake.reason }, 'nothing to change');
    else logChange(this.#log, plan, wake, drifted);
  }

  /** A run with --enable-ipv6 may have left a chain behind. Without ip6tables there can be none. */
  async #removeLeftIPv6(signal: AbortSignal): Promise<void> {
    try {
      await this.#remove(['IPv6'], signal);
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      if (error.failure !== 'missing') {
        const what = 'cannot remove the IPv6 rules that an earlier run may have left';
        this.#log.warn(`${what}: ${error.message}; ${error.remedy}`);
        return;
      }
    }
    this.#removedIPv6 = true;
  }

  async #remove(families: readonly Family[], signal: AbortSignal): Promise<void> {
    const goals = families.map((family) => ({ family, policy: undefined }));
    for (const [family, { removed }] of await this.#reconcile(goals, signal)) {
      this.#applied.delete(family);
      this.#log.info({ family }, `${family}: removed our chain and ${removed.length} rules`);
    }
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

/** Equal for equal values, short whatever their size. */
function fingerprint(value: unknown): string {
  const text = JSON.stringify(value, (_, item: unknown) => (typeof item === 'bigint' ? String(item) : item));
  return createHash('sha256').update(text).digest('base64');
}

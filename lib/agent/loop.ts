import { isDeepStrictEqual } from 'node:util';
import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import type { DataplaneError } from '../dataplane/error.ts';
import type { Logger } from '../log/log.ts';
import { compilePolicy, type Family, keptFamilies, type Policy } from '../policy/policy.ts';
import { load, resyncInterval, type SourcesOptions, type ValidConfig } from './load.ts';
import { reconcile } from './reconcile.ts';
import { logChange } from './report.ts';
import { type RetryOptions, retrying } from './retry.ts';
import type { Wake } from './wakes.ts';

export interface AgentOptions {
  readonly sources: SourcesOptions;
  /** Milliseconds until a busy kernel is an error. */
  readonly syncTimeout: number;
  /**
   * Finds the dataplane. Called after the first valid config: before that, the kernel is not even read.
   *
   * @throws {DataplaneError}
   */
  readonly open: () => Promise<Dataplane>;
}

/** Is told what happens during a sync, and does nothing about it. */
export interface Observer {
  /** The sources were read. */
  onLoad(loaded: ValidConfig): void;
  /** The dataplane was found. */
  onDataplane(dataplane: Dataplane): void;
  /** An attempt has failed and will be made again; `seconds` is what it and the pause after it take. */
  onRetry(error: DataplaneError, seconds: number): void;
  /** A family holds what its policy says. */
  onSync(event: SyncEvent): void;
  /** The sync of these families has failed. */
  onFailure(families: readonly Family[]): void;
}

/** The end of a sync of one family. */
export interface SyncEvent {
  readonly policy: Policy;
  /** What was written; undefined if nothing differed. */
  readonly plan: Plan | undefined;
  /** Whether the kernel held the policy before, and somebody else has changed it. */
  readonly drifted: boolean;
  readonly wake: Wake;
  /** Seconds since the wake. */
  readonly duration: number;
}

/** A sync of all families. */
export interface Sync {
  readonly wake: Wake;
  /** One of each family that is kept. */
  readonly policies: readonly Policy[];
  readonly dataplane: Dataplane;
  /** Whether anything was written. */
  readonly changed: boolean;
  /** Milliseconds until the next sync, as the sources say. */
  readonly interval: number;
}

/**
 * Makes the kernel hold what the sources say, once for each wake. The sources are read before the kernel is touched: an
 * error in them ends the loop and leaves the rules as they are.
 *
 * @throws {InvalidConfigError | DataplaneError} or an AbortError, if the signal ends a retry
 */
export async function* syncs(
  { sources, syncTimeout, open }: AgentOptions,
  wakes: AsyncIterable<Wake> | Iterable<Wake>,
  observer: Observer,
  log: Logger,
  signal: AbortSignal,
): AsyncGenerator<Sync, void> {
  const families = keptFamilies(sources.config.enableIPv6);
  const retry = retryOptions(syncTimeout, observer, log, signal);
  const applied = new Map<Family, Policy>();
  let loaded: ValidConfig | undefined;
  let policies: readonly Policy[] = [];
  let dataplane: Dataplane | undefined;

  for await (const wake of wakes) {
    const before = loaded;
    loaded = await load(sources, before, log);
    observer.onLoad(loaded);
    const { config } = loaded;
    // The same policies as long as the config is the same: what is made of a policy can be kept with it.
    if (config !== before?.config) policies = families.map((family) => compilePolicy(config, family));

    if (dataplane === undefined) {
      dataplane = await retrying(open, retry);
      observer.onDataplane(dataplane);
      log.info(`using ${dataplane.name}: ${dataplane.reason}`);
    }
    const plans = await reconcile(dataplane, policies, {
      ...retry,
      // At a change this process goes by what it wrote itself; what others did is found at the resync.
      from: wake.reason === 'change' ? 'memory' : 'kernel',
      onApply: ({ family, script }) => log.trace({ family, transaction: script.split('\n') }, 'applying'),
    }).catch((error: unknown) => {
      observer.onFailure(families);
      throw error;
    });

    for (const policy of policies) {
      const { family } = policy;
      const plan = plans.get(family);
      const drifted = plan !== undefined && isDeepStrictEqual(applied.get(family), policy);
      applied.set(family, policy);
      observer.onSync({ policy, plan, drifted, wake, duration: (performance.now() - wake.since) / 1000 });
      if (plan === undefined) log.debug({ family, reason: wake.reason }, 'nothing to change');
      else logChange(log, plan, wake, drifted);
    }
    const interval = resyncInterval(loaded, sources);
    yield { wake, policies, dataplane, changed: plans.size > 0, interval };
  }
}

/** How the agent waits for a busy kernel: it logs, and tells the observer. */
export function retryOptions(
  timeoutMs: number,
  observer: Observer,
  log: Logger,
  signal: AbortSignal,
): RetryOptions {
  return {
    timeoutMs,
    signal,
    onRetry(error, attempt, waited) {
      log.warn({ attempt, failure: error.failure }, `trying again: ${error.message}`);
      observer.onRetry(error, waited / 1000);
    },
  };
}

import { InvalidConfigError } from '../config/invalid-config.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import type { DataplaneError } from '../dataplane/error.ts';
import { describeKernelChange } from '../dataplane/kernel-fates.ts';
import type { Logger } from '../log/log.ts';
import { describePolicyChange, type VerdictChanges } from '../policy/changes.ts';
import {
  type Address,
  compilePolicy,
  type Family,
  isFor,
  keptFamilies,
  type Policy,
} from '../policy/policy.ts';
import { isValid, read, resyncInterval, type SourcesOptions, type ValidConfig } from './load.ts';
import { logAddresses } from './log-addresses.ts';
import { type Described, logChange, logVanished } from './log-changes.ts';
import { reconcile } from './reconcile.ts';
import { type RetryOptions, retrying } from './retry.ts';
import { isLook, type SyncReason, type Wake } from './wakes.ts';

/** What the loop works with. */
export interface AgentOptions {
  readonly sources: SourcesOptions;
  /**
   * Whether an invalid config leaves the loop running: after a valid one always, before it only as long as this finds
   * rules of the agent on the node. Absent, an invalid config ends the loop.
   */
  readonly keepIf?: () => Promise<boolean>;
  /** The node's addresses now. Asked for only if a config needs them. */
  readonly ownAddresses: () => readonly Address[];
  /** Milliseconds until a busy kernel is an error. */
  readonly syncTimeout: number;
  /** Takes the lock against a second agent, once. Called before the first sync, and while a start waits for a valid config. */
  readonly lock: () => Promise<void>;
  /**
   * Finds the dataplane. Called after the first valid config; before that, the agent does not read the kernel.
   *
   * @throws {DataplaneError}
   */
  readonly open: () => Promise<Dataplane>;
}

/** Receives the events of a sync. It does not change the sync. */
export interface Observer {
  /** The sources were read, and have no error. */
  onLoad(loaded: ValidConfig): void;
  /** The sources have errors. */
  onInvalidConfig(error: InvalidConfigError): void;
  /** The dataplane was found. */
  onDataplane(dataplane: Dataplane): void;
  /** An attempt failed, and a new one follows; `seconds` is the time of the attempt and of the pause after it. */
  onRetry(error: DataplaneError, seconds: number): void;
  /** The kernel holds the policy of a family. */
  onSync(event: SyncEvent): void;
  /** The sync of these families failed. */
  onFailure(families: readonly Family[]): void;
}

/** The end of a sync of one family. */
export interface SyncEvent {
  readonly policy: Policy;
  /** The plan that was applied; undefined if nothing differed. */
  readonly plan: Plan | undefined;
  /** What the plan does to packets. */
  readonly verdicts: VerdictChanges | undefined;
  /** Whether another program has changed what the agent applied last. */
  readonly drifted: boolean;
  readonly wake: Wake;
  /** Seconds since the wake. */
  readonly duration: number;
}

/** What a wake has led to. */
export type Step = Sync | Held;

/** There is no valid config yet, and the rules of an earlier run stay as they are. */
interface Held {
  readonly kind: 'held';
  /** Milliseconds until the sources are read again without a change. */
  readonly interval: number;
}

/** A sync of all families. */
export interface Sync {
  readonly kind: 'synced';
  /** The policy of each family that the agent keeps. */
  readonly policies: readonly Policy[];
  readonly dataplane: Dataplane;
  /** Whether anything was written. */
  readonly changed: boolean;
  /** Whether the kernel gives some packets another verdict than before. */
  readonly verdictsChanged: boolean;
  /** The programs that may have made the drift that an event told of; undefined if there was none. */
  readonly drift: readonly string[] | undefined;
  /** Milliseconds until the next sync without a change. */
  readonly interval: number;
}

/**
 * Syncs the kernel with the sources, once for each wake. An error in the sources ends the loop before the kernel is
 * changed: the rules stay as they are. With `keepIf`, the loop goes on with the last valid config.
 *
 * @throws {InvalidConfigError | DataplaneError} or an AbortError, if the signal ends a retry
 */
export async function* syncs(
  { sources, keepIf, ownAddresses, syncTimeout, lock, open }: AgentOptions,
  wakes: AsyncIterable<Wake> | Iterable<Wake>,
  observer: Observer,
  log: Logger,
  signal: AbortSignal,
): AsyncGenerator<Step, void> {
  const families = keptFamilies(sources.config.enableIPv6);
  const retry = retryOptions(syncTimeout, observer, log, signal);
  const applied = new Map<Family, Policy>();
  let reading: LoadedConfig | undefined;
  let loaded: ValidConfig | undefined;
  let policies: readonly Policy[] = [];
  let dataplane: Dataplane | undefined;

  for await (const wake of wakes) {
    const last = loaded;
    // A look at the kernel does not read the sources: a file may be half written, and its change is not the reason.
    if (reading === undefined || !isLook(wake.reason)) {
      const before = reading;
      reading = await read(sources, before, log);
      if (isValid(reading)) {
        if (before !== undefined && !isValid(before)) log.info('the config is valid again');
        loaded = reading;
        observer.onLoad(loaded);
      } else {
        const error = new InvalidConfigError(reading.problems, reading.sources);
        observer.onInvalidConfig(error);
        if (keepIf === undefined || (loaded === undefined && !(await keepIf()))) throw error;
        if (reading !== before) log.error(`${error.message}; ${whatIsKept(loaded)}`);
      }
    }
    if (loaded === undefined) {
      await lock();
      yield { kind: 'held', interval: sources.resyncInterval };
      continue;
    }
    const { config } = loaded;
    let described: Described | undefined;
    // The same config gives the same policy objects, by which dataplanes cache their rules.
    const own = config.masqueradeAddresses.length > 0 ? ownAddresses() : [];
    if (config !== last?.config || !isFor(own, policies)) {
      const earlier = policies;
      policies = families.map((family) => compilePolicy(config, family, own));
      logAddresses(log, earlier, policies);
      if (last !== undefined) {
        described = describePolicyChanges(earlier, policies);
        logVanished(log, last.config, config, described);
      }
    }

    if (dataplane === undefined) {
      await lock();
      dataplane = await retrying(open, retry);
      observer.onDataplane(dataplane);
      log.info(`using ${dataplane.name}: ${dataplane.reason}`);
    }
    const written = await bringIn(policies, dataplane, wake, { applied, described, retry, observer, log });
    const interval = resyncInterval(loaded, sources);
    yield { kind: 'synced', policies, dataplane, ...written, interval };
  }
}

/** What happens to packets in each family. Both have the same families in the same order. */
function describePolicyChanges(before: readonly Policy[], after: readonly Policy[]): Described {
  return new Map(
    after.map((policy, index) => [policy.family, describePolicyChange(before[index] ?? policy, policy)]),
  );
}

function whatIsKept(loaded: ValidConfig | undefined): string {
  return loaded === undefined
    ? 'nothing on this node changes until the config is valid'
    : 'the last valid config stays in use until it is valid again';
}

/** What a sync works with. */
interface SyncOptions {
  /** The policies that this process applied last. */
  readonly applied: Map<Family, Policy>;
  /** What policies that are new with this sync do to packets; undefined if they are not, or the first ones. */
  readonly described: Described | undefined;
  readonly retry: RetryOptions;
  readonly observer: Observer;
  readonly log: Logger;
}

/** Other syncs take what this process wrote last for true, as far as reading it costs more than a small change. */
const READS_ALL: readonly SyncReason[] = ['start', 'resync', 'signal'];

/** Brings the policies into the kernel, and tells the observer and the log. */
async function bringIn(
  policies: readonly Policy[],
  dataplane: Dataplane,
  wake: Wake,
  { applied, described, retry, observer, log }: SyncOptions,
): Promise<Pick<Sync, 'changed' | 'verdictsChanged' | 'drift'>> {
  const changes = await reconcile(dataplane, policies, {
    ...retry,
    from: READS_ALL.includes(wake.reason) ? 'kernel' : 'memory',
    // In a fight the reading back would fail, and hold up a new config.
    rechecks: wake.reason === 'start' || dataplane.compare === undefined,
    applied,
    onApply: ({ family, script }) => log.trace({ family, transaction: script.split('\n') }, 'applying'),
  }).catch((error: unknown) => {
    observer.onFailure(policies.map(({ family }) => family));
    throw error;
  });
  const took = performance.now() - wake.since;
  let drift: readonly string[] | undefined;
  let verdictsChanged = false;
  for (const policy of policies) {
    const { family } = policy;
    const change = changes.get(family);
    // What this process applied need not be read from the kernel, unless another program has changed it.
    const known = change?.drifted === false ? described?.get(family) : undefined;
    const verdicts = change && (known ?? describeKernelChange(change.observed.fates(), policy));
    verdictsChanged ||= (verdicts?.lines.length ?? 0) > 0;
    const { plan, drifted = false } = change ?? {};
    // What the agent was to read back, another program had changed again.
    const reason = drifted && wake.reason === 'check' ? 'drift' : wake.reason;
    if (drifted && isLook(reason)) drift = wake.by ?? [];
    applied.set(family, policy);
    observer.onSync({ policy, plan, verdicts, drifted, wake: { ...wake, reason }, duration: took / 1000 });
    if (plan === undefined || verdicts === undefined)
      log.debug({ family, reason: wake.reason }, 'nothing to change');
    else logChange(log, { plan, verdicts, drifted, wake: { ...wake, reason }, took });
  }
  return { changed: changes.size > 0, verdictsChanged, drift };
}

/** How the agent waits for a busy kernel. Each retry is logged and goes to the observer. */
function retryOptions(timeoutMs: number, observer: Observer, log: Logger, signal: AbortSignal): RetryOptions {
  return {
    timeoutMs,
    signal,
    onRetry(error, attempt, waited) {
      log.warn({ attempt, failure: error.failure }, `trying again: ${error.message}`);
      observer.onRetry(error, waited / 1000);
    },
  };
}

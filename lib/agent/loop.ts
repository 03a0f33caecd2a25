import type { MergedConfig } from '../config/config.ts';
import type { ConfigFile } from '../config/config-file.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import { describeKernelChange } from '../dataplane/kernel-verdicts.ts';
import type { Opened } from '../dataplane/open.ts';
import type { Logger } from '../log/log.ts';
import { describePolicyChange, type VerdictChanges } from '../policy/changes.ts';
import {
  areCompiledFor,
  compilePolicy,
  type Family,
  type OwnAddress,
  type Policy,
} from '../policy/policy.ts';
import { errorMessage } from '../text/error.ts';
import {
  createReader,
  keepDecision,
  type LoadObserver,
  type LoadOptions,
  type RestoredConfig,
  type State,
} from './load.ts';
import { logAddresses } from './log-addresses.ts';
import { type ChangesByFamily, logChange, logVanishedConfigFiles } from './log-changes.ts';
import { type FamilyChange, reconcile } from './reconcile.ts';
import { type RetryableError, type RetryOptions, retrying } from './retry.ts';
import { needsConfig, type Trigger } from './triggers.ts';

export interface AgentOptions {
  readonly loading: LoadOptions;
  /**
   * With it, an invalid config leaves the loop running: after a valid one always, before it only as long as this finds
   * rules of the agent on the node. Without it, an invalid config ends the loop.
   */
  readonly hasRulesToKeep?: () => Promise<boolean>;
  /** With it, an invalid config at the start does not leave a node without rules that had a valid one before, as after a reboot. */
  readonly lastValid?: LastValid;
  /** Milliseconds for which a config file that has vanished keeps its last text. */
  readonly vanishedGraceMs: number;
  /** The node's addresses now. Asked for only if a config needs them. */
  readonly ownAddresses: () => readonly OwnAddress[];
  /** Milliseconds of CPU that this process and its tools have used. */
  readonly cpuTime: () => number;
  /** Milliseconds until a busy kernel is an error. */
  readonly syncTimeout: number;
  /** Takes the lock against a second agent, unless this process has it. Called at each trigger, before the dataplane is opened. */
  readonly lock: () => Promise<void>;
  /**
   * Opens the dataplane. Called after the first valid config.
   *
   * @throws {DataplaneError}
   */
  readonly open: () => Promise<Opened>;
}

export interface LastValid {
  readonly read: () => Promise<State | undefined>;
  /** The families without rules of the agent on this node, as far as that is certain. */
  readonly familiesWithoutRules: () => Promise<readonly Family[]>;
}

/** Receives the events of a sync. It does not change the sync. */
export interface Observer extends LoadObserver {
  onDataplane(dataplane: Dataplane): void;
  /** An attempt failed, and a new one follows; `seconds` is the time of the attempt and of the pause after it. */
  onRetry(error: RetryableError, seconds: number): void;
  /** The kernel holds the policy of a family. */
  onSync(event: FamilySyncEvent): void;
  /** The kernel does not hold a policy, and the agent begins to write it. */
  onDifference(): void;
  onReconcile(event: ReconcileEvent): void;
  onFailure(families: readonly Family[]): void;
}

export interface ReconcileEvent {
  /** Whether no other program has changed the agent's rules since this process applied them; true at its first sync. */
  readonly wasUntouched: boolean;
  /** Whether the kernel holds the policies now. */
  readonly inSync: boolean;
  /** The programs that may have changed the agent's rules, as the kernel names them; undefined if it names none. */
  readonly by: readonly string[] | undefined;
}

/** The end of a sync of one family. */
export interface FamilySyncEvent {
  readonly policy: Policy;
  /** The plan that was applied; undefined if nothing differed. */
  readonly plan: Plan | undefined;
  /** What the plan does to packets. */
  readonly verdicts: VerdictChanges | undefined;
  /** Whether another program has changed what the agent applied last. */
  readonly drifted: boolean;
  readonly trigger: Trigger;
  /** Seconds since the trigger. */
  readonly duration: number;
}

/** What a trigger has led to. */
export type TriggerResult = Sync | NoValidConfig;

/** There is no valid config yet, and the rules of an earlier run stay as they are. */
interface NoValidConfig {
  readonly kind: 'no valid config';
  /** Milliseconds until the config files are read again without a change. */
  readonly interval: number;
}

/** A sync of all families. */
export interface Sync {
  readonly kind: 'synced';
  /** What the policies are made of. */
  readonly configFiles: readonly ConfigFile[];
  /** When those of them were first missed that have vanished, as Date.now() says it. */
  readonly missedAt: ReadonlyMap<string, number>;
  /** The policy of each family that the agent keeps. */
  readonly policies: readonly Policy[];
  readonly dataplane: Dataplane;
  /** Whether anything was written. */
  readonly changed: boolean;
  /** Whether the kernel gives some packets another verdict than before. */
  readonly newVerdicts: boolean;
  /** The programs that may have made the drift that was found; undefined if there was none. */
  readonly driftBy: readonly string[] | undefined;
  /** Whether the kernel was found to hold the policies at the end. */
  readonly inSync: boolean;
  /** The generation of nf_tables in which it held the policy of each family; absent if it did not, or netlink does not tell it. */
  readonly generations: ReadonlyMap<Family, number>;
  /** Milliseconds of CPU of a sync that events of the kernel have caused; 0 for other syncs. */
  readonly cost: number;
  /** Milliseconds until the next sync without a change. */
  readonly interval: number;
}

/**
 * Syncs the kernel with the config files, once for each trigger. An error in the config files ends the loop, and the rules stay
 * as they are; if a reboot has taken them, those of the last valid config are written before. With `hasRulesToKeep`, the loop
 * goes on with the last valid config.
 *
 * @throws {InvalidConfigError | DataplaneError} or an AbortError, if the signal ends a retry
 */
export async function* syncs(
  options: AgentOptions,
  triggers: AsyncIterable<Trigger> | Iterable<Trigger>,
  observer: Observer,
  log: Logger,
  signal: AbortSignal,
): AsyncGenerator<TriggerResult, void> {
  const { loading, hasRulesToKeep, lastValid, ownAddresses, cpuTime, lock, open } = options;
  const retry = retryOptions(options.syncTimeout, observer, log, signal);
  const keep = hasRulesToKeep && keepDecision(hasRulesToKeep);
  const reading = { keep, state: lastValid?.read, graceMs: options.vanishedGraceMs };
  const reader = createReader(loading, reading, observer, log);
  const { families } = loading.config;
  let compiled: Compiled | undefined;
  let opened: Opened | undefined;
  let applied: readonly Policy[] | undefined;

  for await (const trigger of triggers) {
    // A sync for a change of the node alone does not read the config files: a file may be half written, and its change is not the reason.
    if (needsConfig(trigger.reason))
      await retrying(() => reader.read(), retry).catch(async (error: unknown) => {
        // Only the first reading can have restored a config; the loop goes on with it if it keeps one, and ends otherwise.
        if (error instanceof InvalidConfigError && reader.restored !== undefined)
          error.consequence = await restoreRules(reader.restored, trigger, options, { retry, observer, log });
        throw error;
      });
    await lock();
    const { valid, missedAt, interval } = reader;
    if (valid === undefined) {
      yield { kind: 'no valid config', interval };
      continue;
    }
    const last = compiled;
    compiled = await retrying(async () => compile(valid.config, last, families, ownAddresses, log), retry);
    const { policies, policyChanges } = compiled;
    opened ??= announceDataplane(await retrying(open, retry), observer, log);
    const before = cpuTime();
    const context = { applied, policyChanges, retry, observer, log };
    const { written, used } = await syncOrFallBack(policies, opened, trigger, context);
    opened = used;
    applied = policies;
    // Only what other programs cause is paced by it.
    const cost = trigger.reason === 'kernel' ? cpuTime() - before : 0;
    const { dataplane } = opened;
    const { configFiles } = valid;
    yield { kind: 'synced', configFiles, missedAt, policies, dataplane, ...written, cost, interval };
  }
}

/**
 * Writes the rules of the last valid config for the families of which the node has none.
 *
 * @returns what the node has then, as a clause
 */
async function restoreRules(
  { config, since }: RestoredConfig,
  trigger: Trigger,
  { lastValid, ownAddresses, lock, open }: AgentOptions,
  telling: Pick<SyncOptions, 'retry' | 'observer' | 'log'>,
): Promise<string> {
  const { retry, observer, log } = telling;
  const families = (await lastValid?.familiesWithoutRules()) ?? [];
  if (families.length === 0)
    return `the rules on this node do not change; its last valid config is of ${since}`;
  const had = `this node had no rules for ${families.join(' and ')}`;
  const those = `those of its last valid config, of ${since},`;
  try {
    await lock();
    const { policies } = await retrying(
      async () => compile(config, undefined, families, ownAddresses, log),
      retry,
    );
    const opened = announceDataplane(await retrying(open, retry), observer, log);
    const first = { ...telling, applied: undefined, policyChanges: undefined };
    const { written } = await syncOrFallBack(policies, opened, trigger, first);
    return written.inSync
      ? `${had}, and has ${those} now`
      : `${had}; ${those} were written, but another program has changed them since`;
  } catch (error) {
    // The config is why the agent ends.
    return `${had}, and ${those} cannot be written: ${errorMessage(error)}`;
  }
}

function announceDataplane(opened: Opened, observer: Observer, log: Logger): Opened {
  const { dataplane, warning } = opened;
  observer.onDataplane(dataplane);
  log.info(`using ${dataplane.name}: ${dataplane.reason}`);
  if (warning !== undefined) log.warn(warning);
  return opened;
}

interface Compiled {
  readonly config: MergedConfig;
  readonly policies: readonly Policy[];
  /** What they do to packets that those before did not; undefined if they are not new, or the first ones. */
  readonly policyChanges: ChangesByFamily | undefined;
}

/** Compiles the merged config. The policies are the same objects if no address of the node that it asks for has changed either. */
function compile(
  config: MergedConfig,
  last: Compiled | undefined,
  families: readonly Family[],
  ownAddresses: () => readonly OwnAddress[],
  log: Logger,
): Compiled {
  const before = last?.policies ?? [];
  const own = config.masqueradeAddresses.length > 0 ? ownAddresses() : [];
  if (config === last?.config && areCompiledFor(own, before)) return { ...last, policyChanges: undefined };
  const policies = families.map((family) => compilePolicy(config, family, own));
  logAddresses(log, before, policies);
  const policyChanges =
    last &&
    new Map(
      policies.map((one, index) => [one.family, describePolicyChange(before[index] ?? one, one)] as const),
    );
  if (last && policyChanges) logVanishedConfigFiles(log, last.config, config, policyChanges);
  return { config, policies, policyChanges };
}

interface SyncOptions {
  /** The policies that this process has applied last; undefined at its first sync. */
  readonly applied: readonly Policy[] | undefined;
  /** As in `Compiled`; undefined also if the policies are not new with this sync. */
  readonly policyChanges: ChangesByFamily | undefined;
  readonly retry: RetryOptions;
  readonly observer: Observer;
  readonly log: Logger;
}

type Written = Pick<Sync, 'changed' | 'newVerdicts' | 'driftBy' | 'inSync' | 'generations'>;

/** Syncs in the dataplane, or at first in the one that follows it if it cannot hold the rules. */
async function syncOrFallBack(
  policies: readonly Policy[],
  opened: Opened,
  trigger: Trigger,
  options: SyncOptions,
): Promise<{ readonly written: Written; readonly used: Opened }> {
  try {
    return { written: await syncAll(policies, opened.dataplane, trigger, options), used: opened };
  } catch (error) {
    if (options.applied !== undefined || opened.fallBack === undefined) throw error;
    const next = announceDataplane(await opened.fallBack(error), options.observer, options.log);
    return syncOrFallBack(policies, next, trigger, options);
  }
}

/** Brings the policies into the kernel, and tells the observer and the log. */
async function syncAll(
  policies: readonly Policy[],
  dataplane: Dataplane,
  trigger: Trigger,
  { applied, policyChanges, retry, observer, log }: SyncOptions,
): Promise<Written> {
  const { changes, inSync, generations, undeletable } = await reconcile(dataplane, policies, {
    ...retry,
    applied,
    onApply({ family, script }) {
      observer.onDifference();
      log.trace({ family, transaction: script.split('\n') }, 'applying');
    },
  }).catch((error: unknown) => {
    observer.onFailure(policies.map(({ family }) => family));
    throw error;
  });
  const took = performance.now() - trigger.since;
  const isDrift = [...changes.values()].some(({ drifted }) => drifted);
  observer.onReconcile({ wasUntouched: !isDrift, inSync, by: trigger.by });
  let newVerdicts = false;
  for (const policy of policies) {
    const { family } = policy;
    const change = changes.get(family);
    const verdicts = change && changesOf(change, policy, policyChanges);
    newVerdicts ||= verdicts !== undefined && (verdicts.lines.length > 0 || verdicts.hadNoEffect === true);
    const { plan, drifted = false } = change ?? {};
    // An event of the kernel after which nothing differs is not reported as a sync.
    if (inSync && (plan !== undefined || trigger.reason !== 'kernel'))
      observer.onSync({ policy, plan, verdicts, drifted, trigger, duration: took / 1000 });
    if (plan === undefined || verdicts === undefined)
      log.debug({ family, reason: trigger.reason }, 'nothing to change');
    else logChange(log, { plan, verdicts, drifted, inSync, trigger, took });
    // Each new process warns of a chain that it cannot delete, and then whenever the rules change.
    if (change !== undefined || trigger.reason === 'start')
      for (const text of undeletable.get(family) ?? []) log.warn({ family }, text);
  }
  return {
    changed: changes.size > 0,
    newVerdicts,
    driftBy: isDrift ? (trigger.by ?? []) : undefined,
    inSync,
    generations,
  };
}

/** What a change does to packets. What this process applied is known, unless another program has changed it. */
function changesOf(
  { drifted, observed }: FamilyChange,
  policy: Policy,
  policyChanges: ChangesByFamily | undefined,
): VerdictChanges {
  const known = drifted ? undefined : policyChanges?.get(policy.family);
  return known ?? describeKernelChange(observed.verdicts(), policy);
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

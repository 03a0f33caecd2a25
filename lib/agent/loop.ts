import type { ConfigFile } from '../config/config-file.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Opened } from '../dataplane/open.ts';
import type { Logger } from '../log/log.ts';
import type { Policy } from '../policy/policy.ts';
import { type Compiled, compile } from './compile.ts';
import { createReader, keepDecision } from './load.ts';
import type { Observer } from './observer.ts';
import type { AgentOptions } from './options.ts';
import { readOrRestore } from './restore.ts';
import { type RetryOptions, retrying } from './retry.ts';
import { announceDataplane, syncOrFallBack, type Written } from './sync.ts';
import { needsConfig, type Trigger } from './triggers.ts';

/** What a trigger has led to. */
export type TriggerResult = Sync | NoValidConfig;

/** There is no valid config yet, and the rules of an earlier run stay as they are. */
interface NoValidConfig {
  readonly kind: 'no valid config';
  /** Milliseconds until the config files are read again without a change. */
  readonly interval: number;
}

/** A sync of all families. */
export interface Sync extends Written {
  readonly kind: 'synced';
  /** What the policies are made of. */
  readonly configFiles: readonly ConfigFile[];
  /** When those of them were first missed that have vanished, as Date.now() says it. */
  readonly missedAt: ReadonlyMap<string, number>;
  /** The policy of each family that the agent keeps. */
  readonly policies: readonly Policy[];
  readonly dataplane: Dataplane;
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
  const telling = { retry, observer, log };
  const keep = hasRulesToKeep && keepDecision(hasRulesToKeep);
  const reading = { keep, state: lastValid?.read, graceMs: options.vanishedGraceMs };
  const reader = createReader(loading, reading, observer, log);
  const { families } = loading.config;
  let compiled: Compiled | undefined;
  let opened: Opened | undefined;
  let applied: readonly Policy[] | undefined;

  for await (const trigger of triggers) {
    // A sync for a change of the node alone does not read the config files: a file may be half written, and its change is not the reason.
    if (needsConfig(trigger.reason)) await readOrRestore(reader, trigger, options, telling);
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
    const context = { ...telling, applied, policyChanges };
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

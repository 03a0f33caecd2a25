import type { MergedConfig } from '../config/config.ts';
import type { ConfigFile } from '../config/config-file.ts';
import { InvalidConfigError } from '../config/invalid-config.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Logger } from '../log/log.ts';
import { describePolicyChange } from '../policy/changes.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { type Compiled, compile } from './compile.ts';
import { createReader } from './load.ts';
import type { ChangesByFamily } from './log-changes.ts';
import type { Observer } from './observer.ts';
import type { AgentOptions } from './options.ts';
import { restoreRules } from './restore.ts';
import { type RetryOptions, retrying } from './retry.ts';
import { announceDataplane, syncAll, type Written } from './sync.ts';
import { needsConfig, type Trigger } from './triggers.ts';

/** What a trigger has led to. */
export type TriggerResult = Sync | NoValidConfig;

/** There is no valid config yet, and the rules of an earlier run stay as they are. */
interface NoValidConfig {
  readonly kind: 'no valid config';
  /** Milliseconds from the last reading of the config files until the next one without a change. */
  readonly interval: number;
}

/** A sync of all families. */
export interface Sync extends Written {
  readonly kind: 'synced';
  /** What the policies are made of. */
  readonly configFiles: readonly ConfigFile[];
  /** The policy of each family that the agent keeps. */
  readonly policies: readonly Policy[];
  readonly dataplane: Dataplane;
  /** Milliseconds that it has taken. */
  readonly duration: number;
  /** Milliseconds from the last reading of the config files until the next one without a change. */
  readonly interval: number;
}

/**
 * Syncs the kernel with the config files, once for each trigger. An invalid config ends the loop, unless it is to be kept, and
 * the rules stay as they are; if a reboot has taken them, those of the last valid config are written before. If another program
 * changes the rules before they are read back, that is no error: `inSync` is false.
 *
 * @throws {InvalidConfigError | DataplaneError | SystemError} or an AbortError, if the signal ends a retry
 */
export async function* syncs(
  options: AgentOptions,
  triggers: AsyncIterable<Trigger> | Iterable<Trigger>,
  observer: Observer,
  log: Logger,
  signal: AbortSignal,
): AsyncGenerator<TriggerResult, void> {
  const { ownAddresses, lock, chooseDataplane } = options;
  const retry = retryOptions(options.syncTimeout, observer, log, signal);
  const reader = createReader(options.reader, observer, log);
  let compiled: Compiled | undefined;
  let dataplane: Dataplane | undefined;

  const sync = async (config: MergedConfig, families: readonly Family[], trigger: Trigger) => {
    await lock();
    const last = compiled;
    compiled = await retrying(async () => compile(config, last, families, ownAddresses, log), retry);
    const { policies } = compiled;
    const chosen = await retrying(chooseDataplane, retry);
    const isSwitch = dataplane !== undefined && chosen !== dataplane;
    if (chosen !== dataplane) announceDataplane(chosen, observer, log);
    dataplane = chosen;
    const written = await syncAll(policies, dataplane, trigger, {
      applied: isSwitch ? undefined : last?.policies,
      // Until now, packets met the same rules in the other dataplane.
      policyChanges: compiled.policyChanges ?? (isSwitch ? noChanges(policies) : undefined),
      retry,
      observer,
      log,
    });
    return { ...written, policies, dataplane };
  };

  for await (const trigger of triggers) {
    try {
      // A sync for a change of the node alone does not read the config files: a file may be half written, and its change is not the reason.
      if (needsConfig(trigger.reason)) await retrying(() => reader.read(), retry);
    } catch (error) {
      // Only the first reading can end the loop with a config of an earlier run at hand.
      const { config, earlier } = reader.lastValid ?? {};
      if (error instanceof InvalidConfigError && config !== undefined && earlier !== undefined)
        error.consequence = await restoreRules(earlier, (families) => sync(config, families, trigger));
      throw error;
    }
    const { lastValid, interval } = reader;
    if (lastValid === undefined) {
      await lock();
      yield { kind: 'no valid config', interval };
      continue;
    }
    const { config, configFiles } = lastValid;
    const start = performance.now();
    const synced = await sync(config, options.reader.config.families, trigger);
    const duration = performance.now() - start;
    yield { kind: 'synced', configFiles, ...synced, duration, interval };
  }
}

function noChanges(policies: readonly Policy[]): ChangesByFamily {
  return new Map(policies.map((one) => [one.family, describePolicyChange(one, one)] as const));
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

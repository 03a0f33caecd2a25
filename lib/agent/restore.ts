import { InvalidConfigError } from '../config/invalid-config.ts';
import { errorMessage } from '../text/error.ts';
import { compile } from './compile.ts';
import type { createReader, RestoredConfig } from './load.ts';
import type { AgentOptions } from './options.ts';
import { retrying } from './retry.ts';
import { announceDataplane, type SyncOptions, syncOrFallBack } from './sync.ts';
import type { Trigger } from './triggers.ts';

type Telling = Pick<SyncOptions, 'retry' | 'observer' | 'log'>;

/**
 * Reads the config files. If that ends the loop at its start, and the last valid config of an earlier run is there, its rules are
 * written before.
 *
 * @throws {InvalidConfigError}
 */
export async function readOrRestore(
  reader: Pick<ReturnType<typeof createReader>, 'read' | 'restored'>,
  trigger: Trigger,
  options: AgentOptions,
  telling: Telling,
): Promise<void> {
  try {
    await retrying(() => reader.read(), telling.retry);
  } catch (error) {
    // Only the first reading can have restored a config; the loop goes on with it if it keeps one, and ends otherwise.
    if (error instanceof InvalidConfigError && reader.restored !== undefined)
      error.consequence = await restoreRules(reader.restored, trigger, options, telling);
    throw error;
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
  telling: Telling,
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

import { errorMessage } from '../text/error.ts';
import { compile } from './compile.ts';
import type { RestoredConfig } from './load.ts';
import type { AgentOptions } from './options.ts';
import { retrying } from './retry.ts';
import { announceDataplane, type SyncOptions, syncOrFallBack } from './sync.ts';
import type { Trigger } from './triggers.ts';

/**
 * Writes the rules of the last valid config for the families of which the node has none.
 *
 * @returns what the node has then, as a clause
 */
export async function restoreRules(
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

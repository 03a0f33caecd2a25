import type { Family } from '../policy/policy.ts';
import { errorMessage } from '../text/error.ts';
import type { LastValid } from './load.ts';
import type { Written } from './sync.ts';

/**
 * Writes the rules of the last valid config of an earlier run for the families of which the node has none.
 *
 * @returns what the node has then, as a clause
 */
export async function restoreRules(
  { since, families }: LastValid,
  sync: (families: readonly Family[]) => Promise<Written>,
): Promise<string> {
  const had = `this node had no rules for ${families.join(' and ')}`;
  const those = `those of its last valid config, of ${since},`;
  try {
    const { inSync } = await sync(families);
    return inSync
      ? `${had}, and has ${those} now`
      : `${had}; ${those} were written, but another program has changed them since`;
  } catch (error) {
    // The config is why the agent ends.
    return `${had}, and ${those} cannot be written: ${errorMessage(error)}`;
  }
}

import type { Installed } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';

/**
 * Whether any dataplane holds rules of the agent that packets meet, also of an earlier run with other flags. Changes
 * nothing.
 *
 * @returns undefined if that cannot be told
 */
export async function hasOwnRules(
  findInstalled: () => Promise<readonly Installed[]>,
): Promise<boolean | undefined> {
  let isCertain = true;
  try {
    for (const { dataplane, families } of await findInstalled()) {
      for (const family of families) {
        const found = await dataplane.observe(family).catch(certainlyNone);
        if (found === undefined) isCertain = false;
        else if (found !== 'none' && found.fates().state === 'applied') return true;
      }
    }
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    return undefined;
  }
  return isCertain ? false : undefined;
}

/** What a failed look means: without the tool or the kernel's support there are no rules. */
function certainlyNone(error: unknown): 'none' | undefined {
  if (!(error instanceof DataplaneError)) throw error;
  return error.failure === 'missing' || error.failure === 'unsupported' ? 'none' : undefined;
}

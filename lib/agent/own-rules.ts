import type { Dataplane, Installed, KernelFates } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family } from '../policy/policy.ts';

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
        const state = await stateOf(dataplane, family);
        if (state === 'applied') return true;
        if (state === 'unknown') isCertain = false;
      }
    }
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    return undefined;
  }
  return isCertain ? false : undefined;
}

async function stateOf(dataplane: Dataplane, family: Family): Promise<KernelFates['state'] | 'unknown'> {
  try {
    return (await dataplane.observe(family)).fates().state;
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    return error.meansNoRules ? 'no chain' : 'unknown';
  }
}

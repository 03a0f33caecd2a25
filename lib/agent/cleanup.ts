import type { Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { InstalledIptables } from '../dataplane/iptables/installed.ts';
import { reconcile } from './reconcile.ts';
import type { RetryOptions } from './retry.ts';

type Family = Plan['family'];

/** What was looked at for rules of ours, and what was removed. */
export interface Removal {
  readonly family: Family;
  /** The dataplane's name. */
  readonly where: string;
  /** Everything that is gone, jumps included; empty where there was nothing. */
  readonly removed: readonly string[];
}

/**
 * Removes all that is ours, wherever it can be.
 *
 * @throws {DataplaneError}
 */
export async function removeAll(
  places: readonly InstalledIptables[],
  options: RetryOptions,
): Promise<readonly Removal[]> {
  const removals: Removal[] = [];
  for (const { dataplane, families } of places) {
    for (const family of families) {
      const goals = [{ family, policy: undefined }];
      const plans = await orNothing(
        family,
        reconcile(async () => dataplane, goals, { ...options, onApply: () => {} }),
      );
      removals.push({ family, where: dataplane.name, removed: plans?.get(family)?.current ?? [] });
    }
  }
  return removals;
}

/** Without ip6tables there can be no IPv6 rules of ours. */
export async function orNothing<Result>(family: Family, work: Promise<Result>): Promise<Result | undefined> {
  try {
    return await work;
  } catch (error) {
    if (family === 'IPv6' && error instanceof DataplaneError && error.failure === 'missing') return undefined;
    throw error;
  }
}

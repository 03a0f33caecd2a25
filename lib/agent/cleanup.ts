import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Place } from '../dataplane/open.ts';
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
  places: readonly Place[],
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

/** The places and families other than those in which rules are kept. */
export function leftoverPlaces(
  places: readonly Place[],
  used: Dataplane,
  kept: readonly Family[],
): readonly Place[] {
  return places.map(({ dataplane, families }) => ({
    dataplane,
    families: dataplane.name === used.name ? families.filter((family) => !kept.includes(family)) : families,
  }));
}

/** Without ip6tables, or where the kernel has no such rules at all, there can be none of ours. */
async function orNothing<Result>(family: Family, work: Promise<Result>): Promise<Result | undefined> {
  try {
    return await work;
  } catch (error) {
    const isNothing =
      error instanceof DataplaneError &&
      (error.failure === 'unsupported' || (family === 'IPv6' && error.failure === 'missing'));
    if (isNothing) return undefined;
    throw error;
  }
}

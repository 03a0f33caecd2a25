import type { Dataplane, Found, Installed, Observed } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family } from '../policy/policy.ts';

/** A leftover, as it was read. */
export interface Leftover extends Found {
  readonly observed: Observed;
}

/** A place that cannot be read. */
export interface Unread {
  readonly family: Family;
  readonly where: string;
  readonly error: DataplaneError;
}

/** The dataplanes and families that can have leftovers: all except those in which the agent keeps rules now. */
export function leftoverPlaces(
  installed: readonly Installed[],
  used: Dataplane,
  kept: readonly Family[],
): readonly Installed[] {
  return installed.map(({ dataplane, families }) => ({
    dataplane,
    families: dataplane.name === used.name ? families.filter((family) => !kept.includes(family)) : families,
  }));
}

/** The leftovers in these places, and the places that cannot be read. */
export async function readLeftovers(
  places: readonly Installed[],
): Promise<{ readonly found: readonly Leftover[]; readonly unread: readonly Unread[] }> {
  const found: Leftover[] = [];
  const unread: Unread[] = [];
  for (const { dataplane, families } of places) {
    const where = dataplane.name;
    for (const family of families) {
      try {
        const observed = await dataplane.observe(family, 'more');
        const rules = observed.remove()?.current;
        if (rules !== undefined) found.push({ family, where, rules, observed });
      } catch (error) {
        if (!(error instanceof DataplaneError)) throw error;
        if (!error.meansNoRules) unread.push({ family, where, error });
      }
    }
  }
  return { found, unread };
}

/**
 * The leftovers in these places.
 *
 * @throws {DataplaneError} if a place cannot be read
 */
export async function findLeftovers(places: readonly Installed[]): Promise<readonly Leftover[]> {
  const { found, unread } = await readLeftovers(places);
  if (unread[0] !== undefined) throw unread[0].error;
  return found;
}

import type { Found, Observed, Place } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import { type RetryOptions, retrying } from './retry.ts';

/** A place as it was read. */
export type Reading = FoundRules | Empty | Unreadable;

/** A place with rules of the agent. */
export interface FoundRules extends Found {
  readonly kind: 'found';
  readonly observed: Observed;
}

/** A place without rules of the agent. */
interface Empty extends Place {
  readonly kind: 'empty';
  /** Undefined if there can be no rules, because the tool or the kernel's support is missing. */
  readonly observed: Observed | undefined;
}

/** A place that cannot be read. */
export interface Unreadable extends Place {
  readonly kind: 'unreadable';
  readonly error: DataplaneError;
}

/**
 * Reads a place with the care of a first look.
 *
 * @param retry how to wait for a busy kernel; if undefined, it cannot be read
 */
export async function readPlace(place: Place, retry?: RetryOptions): Promise<Reading> {
  const look = () => place.dataplane.observe(place.family, 'more');
  try {
    const observed = await (retry === undefined ? look() : retrying(look, retry));
    const rules = observed.remove()?.current;
    return rules === undefined
      ? { ...place, kind: 'empty', observed }
      : { ...place, kind: 'found', observed, rules };
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    if (error.meansNoRules) return { ...place, kind: 'empty', observed: undefined };
    return { ...place, kind: 'unreadable', error };
  }
}

/** Reads places, one after the other. */
export async function readPlaces(
  places: readonly Place[],
  retry?: RetryOptions,
): Promise<readonly Reading[]> {
  const readings: Reading[] = [];
  for (const place of places) readings.push(await readPlace(place, retry));
  return readings;
}

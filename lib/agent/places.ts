import { FAMILIES, type Family } from '../cidr/address.ts';
import type { Dataplane, Observed, OwnRules, Place } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { listPlaces, openDataplane } from '../dataplane/open.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import { type RetryOptions, retrying } from './retry.ts';

export type PlaceState =
  | (OwnRules & { readonly kind: 'found'; readonly observed: Observed })
  | (Place & { readonly kind: 'empty'; readonly observed: Observed })
  /** There can be no rules, because the tool or the kernel's support is missing. */
  | (Place & { readonly kind: 'impossible'; readonly error: DataplaneError })
  | (Place & { readonly kind: 'unreadable'; readonly error: DataplaneError });

export type ObservedRules = Extract<PlaceState, { readonly kind: 'found' }>;
export type UnreadablePlace = Extract<PlaceState, { readonly kind: 'unreadable' }>;

/**
 * Reads a place as at a first observation.
 *
 * @param retry how to wait for a busy kernel; if undefined, it cannot be read
 */
export async function readPlace(place: Place, retry?: RetryOptions): Promise<PlaceState> {
  const observe = () => place.dataplane.observe(place.family, 'more');
  try {
    const observed = await (retry === undefined ? observe() : retrying(observe, retry));
    const rules = observed.planRemoval()?.current;
    return rules === undefined
      ? { ...place, kind: 'empty', observed }
      : { ...place, kind: 'found', observed, rules };
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    return { ...place, kind: error.meansNoRules ? 'impossible' : 'unreadable', error };
  }
}

export async function readPlaces(
  places: readonly Place[],
  retry?: RetryOptions,
): Promise<readonly PlaceState[]> {
  const states: PlaceState[] = [];
  for (const place of places) states.push(await readPlace(place, retry));
  return states;
}

/** All places where rules of the agent can be. */
export interface Survey {
  /** The dataplane that is used. */
  readonly dataplane: Dataplane;
  /** Its places, one for each family. */
  readonly used: readonly PlaceState[];
  /** Those of the dataplanes and modes that are not used. */
  readonly others: readonly PlaceState[];
}

/**
 * Opens the dataplane that an agent would use, and reads all places, for commands beside the agent.
 *
 * @throws {DataplaneError} if no dataplane can be opened
 */
export async function survey(
  options: DataplaneOptions,
  host: Host,
  retry: RetryOptions,
  families: readonly Family[] = FAMILIES,
): Promise<Survey> {
  const { dataplane } = await retrying(() => openDataplane(options, host), retry);
  const all = await listPlaces(options, host);
  const used = families.map((family) => ({ dataplane, family }));
  const others = all.filter(
    (place) => place.dataplane.name !== dataplane.name && families.includes(place.family),
  );
  return { dataplane, used: await readPlaces(used, retry), others: await readPlaces(others, retry) };
}

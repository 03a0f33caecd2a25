import type { MergedConfig } from '../config/config.ts';
import type { Observed, Place, Plan } from '../dataplane/dataplane.ts';
import { ownAddressList } from '../node/own-addresses.ts';
import { compilePolicy, type Family, type Policy } from '../policy/policy.ts';
import { readPlace, type Unreadable } from './places.ts';
import { type RetryOptions, retrying } from './retry.ts';

/** What a sync would do in one place. */
export interface Preview extends Place {
  /** Undefined if nothing differs. */
  readonly plan: Plan | undefined;
  /** The kernel now; undefined if it cannot be read. */
  readonly observed: Observed | undefined;
  /** Undefined if the family is turned off. */
  readonly policy?: Policy;
  /** Why the agent cannot look for leftovers in a family that is turned off. */
  readonly unreadable?: Unreadable;
}

/**
 * What a sync would do now in a place of the dataplane that is used. Nothing is written.
 *
 * @throws {DataplaneError}
 */
export async function preview(
  place: Place,
  config: MergedConfig,
  families: readonly Family[],
  retry: RetryOptions,
): Promise<Preview> {
  const { dataplane, family } = place;
  if (families.includes(family)) {
    const observed = await retrying(() => dataplane.observe(family, 'more'), retry);
    const policy = compilePolicy(config, family, ownAddressList());
    return { ...place, plan: observed.plan(policy), observed, policy };
  }
  const reading = await readPlace(place, retry);
  if (reading.kind === 'unreadable')
    return { ...place, plan: undefined, observed: undefined, unreadable: reading };
  return { ...place, plan: reading.observed?.remove(), observed: reading.observed };
}

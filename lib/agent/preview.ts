import type { MergedConfig } from '../config/config.ts';
import type { Dataplane, Observed, Plan } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import { ownAddressList } from '../node/own-addresses.ts';
import { compilePolicy, type Family, type Policy } from '../policy/policy.ts';

/** What a sync would do in one family. */
export interface Preview {
  readonly family: Family;
  /** Undefined if nothing differs. */
  readonly plan: Plan | undefined;
  /** The kernel now; undefined if it cannot be read. */
  readonly observed?: Observed;
  /** Undefined if the family is turned off. */
  readonly policy?: Policy;
  /** Why the agent cannot look for leftovers in a family that is turned off. */
  readonly unreadable?: DataplaneError;
}

/**
 * What a sync would do in a family now. Nothing is written.
 *
 * @throws {DataplaneError}
 */
export async function preview(
  dataplane: Dataplane,
  config: MergedConfig,
  family: Family,
  enableIPv6: boolean,
): Promise<Preview> {
  if (family === 'IPv4' || enableIPv6) {
    const observed = await dataplane.observe(family, 'more');
    const policy = compilePolicy(config, family, ownAddressList());
    return { family, plan: observed.plan(policy), observed, policy };
  }
  try {
    const observed = await dataplane.observe(family, 'more');
    return { family, plan: observed.remove(), observed };
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    return { family, plan: undefined, ...(!error.meansNoRules && { unreadable: error }) };
  }
}

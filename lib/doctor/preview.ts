import type { RuleLocationState, UnreadableRuleLocation } from '../agent/rule-locations.ts';
import type { MergedConfig } from '../config/config.ts';
import type { Observed, Plan, RuleLocation } from '../dataplane/dataplane.ts';
import { usableSourceAddresses } from '../node/own-addresses.ts';
import { compilePolicy, type Family, type Policy } from '../policy/policy.ts';

/** What a sync would do in one location. */
export interface Preview extends RuleLocation {
  /** Undefined if nothing differs. */
  readonly plan: Plan | undefined;
  /** The kernel now; undefined if it cannot be read. */
  readonly observed: Observed | undefined;
  /** Undefined if the family is turned off. */
  readonly policy?: Policy;
  /** Why the agent cannot look for leftovers in a family that is turned off. */
  readonly unreadable?: UnreadableRuleLocation;
}

/**
 * What a sync would do now in a location of the dataplane that is used.
 *
 * @throws {DataplaneError} if a family is kept that cannot be read
 */
export function preview(
  state: RuleLocationState,
  config: MergedConfig,
  families: readonly Family[],
): Preview {
  const { dataplane, family } = state;
  const location = { dataplane, family };
  const isKept = families.includes(family);
  if ('error' in state) {
    if (isKept) throw state.error;
    const unreadable = state.kind === 'unreadable' ? { unreadable: state } : {};
    return { ...location, plan: undefined, observed: undefined, ...unreadable };
  }
  const { observed } = state;
  if (!isKept) return { ...location, plan: observed.planRemoval(), observed };
  const policy = compilePolicy(config, family, usableSourceAddresses());
  return { ...location, plan: observed.plan(policy), observed, policy };
}

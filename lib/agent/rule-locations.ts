import { FAMILIES, type Family } from '../cidr/address.ts';
import type { Dataplane, Observed, RuleLocation, RulesAtLocation } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { dataplaneChooser, listRuleLocations } from '../dataplane/open.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import { type RetryOptions, retrying } from './retry.ts';

export type RuleLocationState =
  | (RulesAtLocation & { readonly kind: 'found'; readonly observed: Observed })
  | (RuleLocation & { readonly kind: 'empty'; readonly observed: Observed })
  /** There can be no rules, because the tool or the kernel's support is missing. */
  | (RuleLocation & { readonly kind: 'impossible'; readonly error: DataplaneError })
  | (RuleLocation & { readonly kind: 'unreadable'; readonly error: DataplaneError });

export type FoundRules = Extract<RuleLocationState, { readonly kind: 'found' }>;
export type UnreadableRuleLocation = Extract<RuleLocationState, { readonly kind: 'unreadable' }>;

/**
 * Observes the rules in a location.
 *
 * @param retry how to wait for a busy kernel; if undefined, it cannot be read
 */
export async function observeRuleLocation(
  location: RuleLocation,
  retry?: RetryOptions,
): Promise<RuleLocationState> {
  const observe = () => location.dataplane.observe(location.family);
  try {
    const observed = await (retry === undefined ? observe() : retrying(observe, retry));
    const rules = observed.planRemoval()?.current;
    // An empty chain without a jump is no rule.
    return rules === undefined || rules.length === 0
      ? { ...location, kind: 'empty', observed }
      : { ...location, kind: 'found', observed, rules };
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    return { ...location, kind: error.meansNoRules ? 'impossible' : 'unreadable', error };
  }
}

async function observeRuleLocations(
  locations: readonly RuleLocation[],
  retry?: RetryOptions,
): Promise<readonly RuleLocationState[]> {
  const states: RuleLocationState[] = [];
  for (const location of locations) states.push(await observeRuleLocation(location, retry));
  return states;
}

/** What a command needs to read the agent's rules on this node. */
export interface NodeAccess {
  readonly dataplane: DataplaneOptions;
  readonly host: Host;
  readonly retry: RetryOptions;
}

/** All locations where rules of the agent can be. */
export interface Survey {
  /** The dataplane that is used. */
  readonly dataplane: Dataplane;
  /** Its locations, one for each family. */
  readonly used: readonly RuleLocationState[];
  /** Those of the dataplanes and modes that are not used. */
  readonly others: readonly RuleLocationState[];
}

/**
 * Opens the dataplane that an agent would use, and observes all locations, for commands beside the agent.
 *
 * @throws {DataplaneError} if no dataplane can be opened
 */
export async function survey(
  { dataplane: options, host, retry }: NodeAccess,
  families: readonly Family[] = FAMILIES,
): Promise<Survey> {
  const dataplane = await retrying(dataplaneChooser(options, host), retry);
  const all = await listRuleLocations(options, host);
  const used = families.map((family) => ({ dataplane, family }));
  const others = all.filter(
    (location) => location.dataplane.name !== dataplane.name && families.includes(location.family),
  );
  return {
    dataplane,
    used: await observeRuleLocations(used, retry),
    others: await observeRuleLocations(others, retry),
  };
}

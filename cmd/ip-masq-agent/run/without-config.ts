import { observeRuleLocation } from '../../../lib/agent/rule-locations.ts';
import { FAMILIES, type Family } from '../../../lib/cidr/address.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { listRuleLocations } from '../../../lib/dataplane/open.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, keptFamilies, silentHost } from '../from-flags.ts';

/** Milliseconds to read the node after an invalid config. */
const READ_MS = 2_000;

/**
 * Whether any location holds rules of the agent that packets meet, also of an earlier run with other flags; undefined if that
 * cannot be told.
 */
export async function findRulesInUse(
  flags: FlagValues,
  families: readonly Family[] = FAMILIES,
): Promise<boolean | undefined> {
  let isCertain = true;
  try {
    for (const location of await listRuleLocations(dataplaneOptions(flags), silentHost(flags, READ_MS))) {
      if (!families.includes(location.family)) continue;
      const state = await observeRuleLocation(location);
      // A chain that nothing leads to masquerades nothing; one that cannot be listed may be in use.
      if (state.kind === 'unreadable') isCertain = false;
      else if (state.kind === 'found' && state.observed.verdicts().state === 'applied') return true;
    }
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    return undefined;
  }
  return isCertain ? false : undefined;
}

/** The families for which the agent keeps rules, and of which this node certainly has none. */
export async function familiesWithoutRules(flags: FlagValues): Promise<readonly Family[]> {
  const families: Family[] = [];
  for (const family of keptFamilies(flags))
    if ((await findRulesInUse(flags, [family])) === false) families.push(family);
  return families;
}

/** What an invalid config means for the node, as a clause. */
export async function effectOnNode(flags: FlagValues): Promise<string> {
  switch (await findRulesInUse(flags)) {
    case true:
      return 'the rules on this node do not change';
    case false:
      return 'this node has no rules of the agent: the packets of its pods leave with the addresses of the pods, and most get no answer from outside';
    case undefined:
      return 'nothing on this node changes';
  }
}

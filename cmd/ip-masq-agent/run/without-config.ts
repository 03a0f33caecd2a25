import type { RetryOptions } from '../../../lib/agent/retry.ts';
import { observeRuleLocation } from '../../../lib/agent/rule-locations.ts';
import { FAMILIES, type Family } from '../../../lib/cidr/address.ts';
import type { KernelVerdicts } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { listRuleLocations } from '../../../lib/dataplane/open.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, keptFamilies, silentNetlink } from '../from-flags.ts';

/** Milliseconds to read the node after an invalid config. */
const READ_MS = 2_000;

/**
 * Whether rules of the agent in any location masquerade packets, also those of an earlier run with other flags, for each family;
 * undefined where that cannot be told.
 *
 * @param retry how to wait for a busy kernel; if undefined, that cannot be told
 */
async function findRulesInUse(
  flags: FlagValues,
  retry?: RetryOptions,
): Promise<ReadonlyMap<Family, boolean | undefined>> {
  const found = new Map<Family, boolean | undefined>(FAMILIES.map((family) => [family, false]));
  using netlink = silentNetlink();
  try {
    for (const location of await listRuleLocations(dataplaneOptions(flags), systemHost(READ_MS, netlink))) {
      const { family } = location;
      if (found.get(family) === true) continue;
      const state = await observeRuleLocation(location, retry);
      // Rules that cannot be read may masquerade packets.
      if (state.kind === 'unreadable') found.set(family, undefined);
      else if (state.kind === 'found' && masquerades(state.observed.verdicts())) found.set(family, true);
    }
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    return new Map(FAMILIES.map((family) => [family, undefined]));
  }
  return found;
}

/** A chain that nothing leads to masquerades nothing, and neither does one that another program has emptied. */
function masquerades({ state, ranges }: KernelVerdicts): boolean {
  return state === 'applied' && ranges.some(({ verdict }) => verdict !== 'not_masqueraded');
}

/** The families for which the agent keeps rules, and of which this node certainly has none. */
export async function familiesWithoutRules(
  flags: FlagValues,
  retry: RetryOptions,
): Promise<readonly Family[]> {
  const found = await findRulesInUse(flags, retry);
  return keptFamilies(flags).filter((family) => found.get(family) === false);
}

/** What an invalid config means for the node, as a clause. */
export async function effectOnNode(flags: FlagValues): Promise<string> {
  const found = [...(await findRulesInUse(flags)).values()];
  return found.every((hasRules) => hasRules === false)
    ? 'this node has no rules of the agent: the packets of its pods leave with the addresses of the pods, and most get no answer from outside'
    : 'the rules on this node do not change';
}

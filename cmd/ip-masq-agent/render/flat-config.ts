import { covers, type Prefix } from '../../../lib/cidr/prefix.ts';
import { prefixesOf, rangeOf } from '../../../lib/cidr/ranges.ts';
import { LINK_LOCAL } from '../../../lib/cidr/reserved.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { LINK_LOCAL_KEYS } from '../../../lib/config/keys.ts';
import { cutBySegments, flatten, notMasqueradedDestinations } from '../../../lib/policy/flatten.ts';
import { compilePolicy, type Family, type Policy } from '../../../lib/policy/policy.ts';
import type { Located, Origin } from '../../../lib/text/origin.ts';

const FLATTENED: Origin = { kind: 'built-in', basis: 'flattened' };

/**
 * The merged config as one config file without exceptions, with the shortest list that means the same. Its reader adds
 * link-local if `masqLinkLocal` is false, as all agents do.
 */
export function flatConfig(config: MergedConfig, families: readonly Family[]): MergedConfig {
  const flat = families.map((family) => ({ family, ...flatFamily(config, family) }));
  return {
    ...config,
    nonMasqueradeCIDRs: flat.flatMap(({ list }) => list),
    masqueradeCIDRs: [],
    ...Object.fromEntries(flat.map((one) => [LINK_LOCAL_KEYS[one.family], one.masqLinkLocal])),
  };
}

/** Everything that the policy does not masquerade, with link-local, as the shortest list. */
export function flatPrefixes(policy: Policy): readonly Located<Prefix>[] {
  const segments = flatten(policy).filter(({ entry }) => entry.verdict === 'not_masqueraded');
  return prefixesOf(notMasqueradedDestinations(policy)).map((prefix) => {
    const decided = [...cutBySegments(segments, rangeOf(prefix))];
    const [origin = FLATTENED, ...others] = new Set(decided.flatMap(({ entry }) => entry?.origin ?? []));
    return { value: prefix, origin, others };
  });
}

function flatFamily(
  config: MergedConfig,
  family: Family,
): { readonly list: readonly Located<Prefix>[]; readonly masqLinkLocal: Located<boolean> } {
  const said = config[LINK_LOCAL_KEYS[family]];
  const linkLocal = LINK_LOCAL[family].prefix;
  const list = flatPrefixes(compilePolicy(config, family));
  // If there is an exception inside link-local, the reader must not add all of link-local.
  const value = !list.some((one) => covers(one.value, linkLocal));
  const origin: Origin = said.value === value ? said.origin : FLATTENED;
  return {
    list: value ? list : list.filter((one) => one.value.text !== linkLocal.text),
    masqLinkLocal: { value, origin },
  };
}

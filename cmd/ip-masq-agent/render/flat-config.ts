import { covers, type Prefix } from '../../../lib/cidr/prefix.ts';
import { prefixesOf, rangeOf } from '../../../lib/cidr/ranges.ts';
import { LEFT_ALONE } from '../../../lib/cidr/reserved.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { cutBySegments, flatten, notMasqueradedDestinations } from '../../../lib/policy/flatten.ts';
import { compilePolicy, type Family, type Policy } from '../../../lib/policy/policy.ts';
import type { Located, Origin } from '../../../lib/text/origin.ts';

const FLATTENED: Origin = { kind: 'built-in', basis: 'flattened' };

/**
 * The merged config as one config file without exceptions, with the shortest list that means the same. Its reader adds
 * link-local if `masqLinkLocal` is false, as all agents do.
 */
export function flatConfig(config: MergedConfig, families: readonly Family[]): MergedConfig {
  const list = families.flatMap((family) => flatPrefixes(compilePolicy(config, family)));
  const leftAlone = families.flatMap((family) => LEFT_ALONE[family]);
  const flags = leftAlone.map(({ key, prefix }): readonly [string, Located<boolean>] => {
    // If there is an exception inside the range, the reader must not add all of it.
    const value = !list.some((one) => covers(one.value, prefix));
    return [key, { value, origin: config[key].value === value ? config[key].origin : FLATTENED }];
  });
  return {
    ...config,
    nonMasqueradeCIDRs: list.filter(({ value }) =>
      leftAlone.every(({ prefix }) => prefix.text !== value.text),
    ),
    masqueradeCIDRs: [],
    ...Object.fromEntries(flags),
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

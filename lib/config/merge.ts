import { OTHER_RESERVED_RANGES, PRIVATE_RANGES } from '../cidr/reserved.ts';
import type { ConfigOptions, MergedConfig, ParsedConfig } from './config.ts';
import { findConflicts } from './conflicts.ts';
import { mergeKeys } from './keys.ts';
import { gravestFirst, ProblemList } from './problem.ts';

/**
 * Joins what the config files say. They must be in byte order of their names. Without any, the
 * defaults of the kept families apply: RFC 1918 and, if asked for, the other reserved ranges.
 *
 * @param conflicts gets the conflicts, and counts those that the merged config does not keep
 */
export function mergeConfigs(
  configs: readonly ParsedConfig[],
  { families, noMasqAllReservedRanges }: Pick<ConfigOptions, 'families' | 'noMasqAllReservedRanges'>,
  conflicts: ProblemList = new ProblemList({ strict: false }),
): MergedConfig {
  const merged = mergeKeys(configs);
  if (configs.length === 0) {
    const ranges = noMasqAllReservedRanges ? [...PRIVATE_RANGES, ...OTHER_RESERVED_RANGES] : PRIVATE_RANGES;
    const nonMasqueradeCIDRs = ranges
      .filter(({ prefix }) => families.includes(prefix.family))
      .map(({ prefix, rfc }) => ({ value: prefix, origin: { kind: 'built-in', basis: rfc } }) as const);
    return { configFileNames: [], ...merged, nonMasqueradeCIDRs, problems: [] };
  }
  const masqLinkLocal = { IPv4: merged.masqLinkLocal.value, IPv6: merged.masqLinkLocalIPv6.value };
  for (const conflict of findConflicts(configs, masqLinkLocal)) conflicts.add(conflict);
  return {
    configFileNames: configs.map(({ configFileName }) => configFileName),
    ...merged,
    problems: gravestFirst(conflicts.reported()),
  };
}

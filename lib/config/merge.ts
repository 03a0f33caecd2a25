import { builtIn, OTHER_RESERVED_RANGES, PRIVATE_RANGES } from '../cidr/reserved.ts';
import type { ConfigOptions, MergedConfig, ParsedConfig } from './config.ts';
import { findConflicts } from './conflicts.ts';
import { mergeKeys } from './keys.ts';
import { ProblemList } from './problem.ts';

/**
 * Joins what the config files say. They must be in byte order of their names. Without any, the
 * defaults of the kept families apply: RFC 1918 and, if asked for, the other reserved ranges.
 *
 * @param conflicts gets the conflicts, and keeps as many as are reported
 */
export function mergeConfigs(
  configs: readonly ParsedConfig[],
  { families, noMasqAllReservedRanges }: Pick<ConfigOptions, 'families' | 'noMasqAllReservedRanges'>,
  conflicts: ProblemList = new ProblemList({ strict: false }),
): MergedConfig {
  const merged = mergeKeys(configs);
  if (configs.length === 0) {
    const ranges = noMasqAllReservedRanges ? [...PRIVATE_RANGES, ...OTHER_RESERVED_RANGES] : PRIVATE_RANGES;
    const nonMasqueradeCIDRs = ranges.filter(({ prefix }) => families.includes(prefix.family)).map(builtIn);
    return { configFileNames: [], ...merged, nonMasqueradeCIDRs, problems: [] };
  }
  for (const conflict of findConflicts(configs, merged)) conflicts.add(conflict);
  return {
    configFileNames: configs.map(({ configFileName }) => configFileName),
    ...merged,
    problems: conflicts.reported(),
  };
}

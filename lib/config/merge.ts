import type { Prefix } from '../cidr/prefix.ts';
import { OTHER_RESERVED_RANGES, PRIVATE_RANGES } from '../cidr/reserved.ts';
import type { Located } from '../text/origin.ts';
import type { MasqueradeAddress, MergedConfig, SourceConfig } from './config.ts';
import { findConflicts } from './conflicts.ts';
import { gravestFirst, ProblemList } from './problem.ts';

/**
 * Joins what the sources say. The sources must be in byte order of their names. Without any, the
 * defaults apply: RFC 1918 and, if asked for, the other reserved ranges.
 *
 * @param conflicts gets the conflicts, and counts those that the merged config does not keep
 */
export function mergeConfigs(
  configs: readonly SourceConfig[],
  noMasqAllReservedRanges: boolean,
  conflicts: ProblemList = new ProblemList(false),
): MergedConfig {
  if (configs.length === 0) return defaultConfig(noMasqAllReservedRanges);
  const masqLinkLocal = anyTrue(configs.map((config) => config.masqLinkLocal));
  const masqLinkLocalIPv6 = anyTrue(configs.map((config) => config.masqLinkLocalIPv6));
  const flags = { IPv4: masqLinkLocal.value, IPv6: masqLinkLocalIPv6.value };
  for (const conflict of findConflicts(configs, flags)) conflicts.add(conflict);
  return {
    sources: configs.map(({ source }) => source),
    nonMasqueradeCIDRs: union(configs.flatMap((config) => config.nonMasqueradeCIDRs)),
    masqueradeCIDRs: union(configs.flatMap((config) => config.masqueradeCIDRs)),
    masqueradeFromCIDRs: union(configs.flatMap((config) => config.masqueradeFromCIDRs)),
    masqueradeAddresses: firstOfEach(configs.flatMap((config) => config.masqueradeAddresses)),
    masqLinkLocal,
    masqLinkLocalIPv6,
    resyncInterval: configs.find((config) => config.resyncInterval !== undefined)?.resyncInterval,
    conflicts: gravestFirst(conflicts.reported()),
  };
}

const UNSET: Located<boolean> = { value: false, origin: { kind: 'built-in', reason: 'default' } };

/** The first flag that is true; if none is, the first that a source sets. */
function anyTrue(flags: readonly (Located<boolean> | undefined)[]): Located<boolean> {
  return flags.find((flag) => flag?.value === true) ?? flags.find((flag) => flag !== undefined) ?? UNSET;
}

function defaultConfig(noMasqAllReservedRanges: boolean): MergedConfig {
  const ranges = noMasqAllReservedRanges ? [...PRIVATE_RANGES, ...OTHER_RESERVED_RANGES] : PRIVATE_RANGES;
  return {
    sources: [],
    nonMasqueradeCIDRs: ranges.map(({ prefix, rfc }) => ({
      value: prefix,
      origin: { kind: 'built-in', reason: rfc },
    })),
    masqueradeCIDRs: [],
    masqueradeFromCIDRs: [],
    masqueradeAddresses: [],
    masqLinkLocal: UNSET,
    masqLinkLocalIPv6: UNSET,
    resyncInterval: undefined,
    conflicts: [],
  };
}

/** The first for each destination. Others say the same, or are conflicts. */
function firstOfEach(items: readonly Located<MasqueradeAddress>[]): readonly Located<MasqueradeAddress>[] {
  const seen = new Set<string>();
  return items.filter(
    ({ value: { destination } }) => !seen.has(destination.text) && seen.add(destination.text),
  );
}

function union(entries: readonly Located<Prefix>[]): readonly Located<Prefix>[] {
  const seen = new Set<string>();
  // A set of texts is faster than a PrefixMap, and equal prefixes have equal texts.
  return entries.filter(({ value: { text } }) => !seen.has(text) && seen.add(text));
}

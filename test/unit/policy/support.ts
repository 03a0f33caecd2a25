import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Prefix } from '../../../lib/cidr/prefix.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { mergeConfigs } from '../../../lib/config/merge.ts';
import type { Located } from '../../../lib/text/origin.ts';
import { holds } from '../cidr/arbitrary.ts';
import { anyParsedConfig } from '../config/arbitrary.ts';
import { OPTIONS } from '../config/support.ts';

/** Values with an origin that does not matter. */
export function located<Value>(values: readonly Value[]): readonly Located<Value>[] {
  return values.map((value) => ({ value, origin: { kind: 'built-in', basis: 'test' } }));
}

/** Configs with few prefixes that often repeat and contain each other, in every list. */
export function anyConfig(family: Family): fc.Arbitrary<MergedConfig> {
  return fc
    .array(anyParsedConfig(family), { minLength: 1, maxLength: 2 })
    .map((configs) => mergeConfigs(configs, OPTIONS));
}

/** Whether packets from an address are not left alone whatever their destination, as a search through all finds. */
export function isAllowed(config: MergedConfig, family: Family, source: bigint): boolean {
  const [listed, exceptions] = [config.masqueradeFromCIDRs, config.nonMasqueradeFromCIDRs].map((list) =>
    list.flatMap(({ value }) => (value.family === family ? [value] : [])),
  );
  const longest = (prefixes: readonly Prefix[] = []) =>
    Math.max(...prefixes.filter((one) => holds(one, source)).map(({ length }) => length));
  const [of, except] = [longest(listed), longest(exceptions)];
  return listed?.length === 0 ? except < 0 : of >= 0 && of >= except;
}

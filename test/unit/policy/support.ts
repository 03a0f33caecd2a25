import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Prefix } from '../../../lib/cidr/prefix.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import type { Located } from '../../../lib/text/origin.ts';
import { crowdedPrefix, holds } from '../cidr/arbitrary.ts';
import { mergedOf } from '../config/support.ts';

/** Values with an origin that does not matter. */
export function located<Value>(values: readonly Value[]): readonly Located<Value>[] {
  return values.map((value) => ({ value, origin: { kind: 'built-in', basis: 'test' } }));
}

/** Configs with few prefixes that often repeat and contain each other, in every list. */
export function anyConfig(family: Family): fc.Arbitrary<MergedConfig> {
  const prefixes = fc.array(crowdedPrefix(family), { maxLength: 8 });
  const item = fc.record({ destination: crowdedPrefix(family), range: crowdedPrefix(family) });
  return fc
    .record({
      inside: prefixes,
      outside: prefixes,
      from: fc.array(crowdedPrefix(family), { maxLength: 3 }),
      notFrom: fc.array(crowdedPrefix(family), { maxLength: 3 }),
      addresses: fc.uniqueArray(item, { maxLength: 4, selector: ({ destination }) => destination.text }),
      masqLinkLocal: fc.boolean(),
    })
    .map(({ inside, outside, from, notFrom, addresses, masqLinkLocal }) => {
      const flag = { value: masqLinkLocal, origin: { kind: 'built-in', basis: 'test' } } as const;
      return {
        ...mergedOf({ 'ip-masq-s': '{}' }),
        nonMasqueradeCIDRs: located(inside),
        masqueradeCIDRs: located(outside),
        masqueradeFromCIDRs: located(from),
        nonMasqueradeFromCIDRs: located(notFrom),
        masqueradeAddresses: located(addresses),
        masqLinkLocal: flag,
        masqLinkLocalIPv6: flag,
      };
    });
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

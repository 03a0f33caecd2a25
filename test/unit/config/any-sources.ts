import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import { type Prefix, parsePrefix } from '../../../lib/cidr/prefix.ts';
import { rangeOf } from '../../../lib/cidr/ranges.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { compilePolicy, decider } from '../../../lib/policy/policy.ts';
import { BITS, crowdedPrefix, FAMILIES } from '../cidr/arbitrary.ts';

/** Sources that merge without an error. */
export interface AnySources {
  readonly enableIPv6: boolean;
  /** By name, in byte order. */
  readonly texts: Readonly<Record<string, string>>;
}

const NAMES = ['ip-masq-a', 'ip-masq-b', 'ip-masq-c'];

/** Link-local itself, what is inside it, beside it, and around it. */
const NEAR_LINK_LOCAL = [
  '169.254.0.0/16',
  '169.254.169.254/32',
  '169.254.128.0/17',
  '169.255.0.0/16',
  '169.254.0.0/15',
  'fe80::/10',
  'fe80::1/128',
  'fe80::/11',
  'fec0::/10',
  'fe80::/9',
].map(prefix);

/** Few prefixes that nest, with link-local among them, in the lists of a few sources. */
export function anySources(): fc.Arbitrary<AnySources> {
  const entry = fc.record({
    prefix: fc.oneof(...FAMILIES.map(crowdedPrefix), fc.constantFrom(...NEAR_LINK_LOCAL)),
    list: fc.constantFrom('nonMasqueradeCIDRs', 'masqueradeCIDRs', 'masqueradeFromCIDRs'),
    names: fc.subarray(NAMES, { minLength: 1 }),
  });
  const address = fc.record({
    destination: fc.oneof(...FAMILIES.map(crowdedPrefix), fc.constantFrom(...NEAR_LINK_LOCAL)),
    bits: fc.constantFrom(64, 65),
    names: fc.subarray(NAMES, { minLength: 1 }),
  });
  const flag = fc.option(fc.boolean(), { nil: undefined });
  const flags = fc.record({ masqLinkLocal: flag, masqLinkLocalIPv6: flag });
  return fc
    .record({
      enableIPv6: fc.boolean(),
      names: fc.subarray(NAMES, { minLength: 1 }),
      entries: fc.uniqueArray(entry, { maxLength: 14, selector: (item) => item.prefix.text }),
      addresses: fc.uniqueArray(address, { maxLength: 4, selector: (item) => item.destination.text }),
      flags: fc.tuple(flags, flags, flags),
      resyncInterval: fc.option(fc.constantFrom('60s', '1m30s', '1500ms', '100.5ms'), { nil: undefined }),
    })
    .map(({ enableIPv6, names, entries, addresses, flags, resyncInterval }) => {
      const possible = entries.filter((item) => enableIPv6 || item.prefix.family === 'IPv4');
      const text = (name: string) => {
        const own = possible.filter((item) => item.names.includes(name));
        const list = (key: string) => own.filter((item) => item.list === key).map((item) => item.prefix.text);
        return JSON.stringify({
          nonMasqueradeCIDRs: list('nonMasqueradeCIDRs'),
          masqueradeCIDRs: list('masqueradeCIDRs'),
          masqueradeFromCIDRs: list('masqueradeFromCIDRs'),
          masqueradeAddresses: addresses
            .filter((item) => item.names.includes(name) && (enableIPv6 || item.destination.family === 'IPv4'))
            .map(({ destination: { family, text }, bits }) => ({
              destination: text,
              address: family === 'IPv6' ? `fd00::/${bits}` : `10.0.0.0/${bits - 40}`,
            })),
          ...flags[NAMES.indexOf(name)],
          resyncInterval,
        });
      };
      return { enableIPv6, texts: Object.fromEntries(names.map((name) => [name, text(name)])) };
    });
}

/** Fails where the two do not decide alike for every address of the families: it changes only at the edges of entries. */
export function assertDecideAlike(a: MergedConfig, b: MergedConfig, enableIPv6: boolean): void {
  for (const family of enableIPv6 ? FAMILIES : (['IPv4'] as const)) {
    const policies = [compilePolicy(a, family), compilePolicy(b, family)] as const;
    const [decideA, decideB] = [decider(policies[0]), decider(policies[1])];
    const prefixes = policies.flatMap(({ entries }) => entries.map((entry) => entry.prefix));
    for (const value of edges(family, prefixes)) {
      const [left, right] = [decideA({ family, value }), decideB({ family, value })];
      assert.equal(
        left?.verdict === 'not_masqueraded',
        right?.verdict === 'not_masqueraded',
        `${family} ${value}`,
      );
      assert.equal(left?.as?.range.text, right?.as?.range.text, `${family} ${value}`);
    }
  }
}

/** The first address of each stretch without an edge of a prefix, ascending. */
export function edges(family: Family, prefixes: readonly Prefix[]): readonly bigint[] {
  const all = prefixes.map(rangeOf).flatMap(({ first, last }) => [first, last + 1n]);
  const inside = [0n, ...all].filter((edge) => edge < 2n ** BigInt(BITS[family]));
  return [...new Set(inside)].toSorted((a, b) => (a < b ? -1 : 1));
}

function prefix(text: string): Prefix {
  const parsed = parsePrefix(text);
  if ('error' in parsed) throw new Error(`${text} ${parsed.error.message}`);
  return parsed.prefix;
}

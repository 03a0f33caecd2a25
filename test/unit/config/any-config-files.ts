import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Prefix } from '../../../lib/cidr/prefix.ts';
import { rangeOf } from '../../../lib/cidr/ranges.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { CIDR_KEYS, KEYS, type KeyKind } from '../../../lib/config/keys.ts';
import { allowedSources } from '../../../lib/policy/flatten.ts';
import { compilePolicy, decider } from '../../../lib/policy/policy.ts';
import { BITS, crowdedPrefix, FAMILIES } from '../cidr/arbitrary.ts';
import { prefixFrom } from '../cidr/support.ts';

/** Config files that merge without an error. */
export interface AnyConfigFiles {
  readonly families: readonly Family[];
  /** By name, in byte order. */
  readonly texts: Readonly<Record<string, string>>;
}

const NAMES = ['ip-masq-a', 'ip-masq-b', 'ip-masq-c'];

/** Link-local itself, what is inside it, beside it, and around it. */
const NEAR_LINK_LOCAL = [
  ...['169.254.0.0/16', '169.254.169.254/32', '169.254.128.0/17', '169.255.0.0/16', '169.254.0.0/15'],
  ...['fe80::/10', 'fe80::1/128', 'fe80::/11', 'fec0::/10', 'fe80::/9'],
].map(prefixFrom);

/** Few prefixes that nest, with link-local among them, in the lists of a few config files. All keys are set now and then. */
export function anyConfigFiles(): fc.Arbitrary<AnyConfigFiles> {
  const anyPrefix = fc.oneof(...FAMILIES.map(crowdedPrefix), fc.constantFrom(...NEAR_LINK_LOCAL));
  const names = fc.subarray(NAMES, { minLength: 1 });
  const entry = fc.record({ prefix: anyPrefix, list: fc.constantFrom(...CIDR_KEYS), names });
  const address = fc.record({ destination: anyPrefix, bits: fc.constantFrom(64, 65), names });
  const flag = fc.option(fc.boolean(), { nil: undefined });
  const duration = fc.option(fc.constantFrom('60s', '1m30s', '1500ms', '100.5ms'), { nil: undefined });
  const each = <Value>(value: fc.Arbitrary<Value>) =>
    fc.record(Object.fromEntries(KEYS.map(({ name }) => [name, value])));
  return fc
    .record({
      families: fc.constantFrom<readonly Family[]>(['IPv4'], ['IPv6'], FAMILIES),
      names,
      entries: fc.uniqueArray(entry, { maxLength: 14, selector: (item) => item.prefix.text }),
      addresses: fc.uniqueArray(address, { maxLength: 4, selector: (item) => item.destination.text }),
      // Durations must agree, so all config files have the same ones; each has flags of its own.
      flags: fc.tuple(each(flag), each(flag), each(flag)),
      durations: each(duration),
    })
    .map(({ families, names, entries, addresses, flags, durations }) => {
      const isPossible = ({ family }: Prefix) => families.includes(family);
      const textOf = (name: string) => {
        const own = <Item extends { readonly names: readonly string[] }>(items: readonly Item[]) =>
          items.filter((item) => item.names.includes(name));
        const listed = own(entries).filter(({ prefix }) => isPossible(prefix));
        const items = own(addresses)
          .filter(({ destination }) => isPossible(destination))
          .map(({ destination: { family, text }, bits }) => ({
            destination: text,
            address: family === 'IPv6' ? `fd00::/${bits}` : `10.0.0.0/${bits - 40}`,
          }));
        const values: Readonly<Record<KeyKind, (key: string) => unknown>> = {
          cidrs: (key) => listed.filter(({ list }) => list === key).map(({ prefix }) => prefix.text),
          addresses: () => items,
          flag: (key) => flags[NAMES.indexOf(name)]?.[key],
          duration: (key) => durations[key],
        };
        return JSON.stringify(Object.fromEntries(KEYS.map((key) => [key.name, values[key.kind](key.name)])));
      };
      return { families, texts: Object.fromEntries(names.map((name) => [name, textOf(name)])) };
    });
}

/** Fails where the two do not decide alike for every address of the families: it changes only at the edges of entries. */
export function assertDecideAlike(a: MergedConfig, b: MergedConfig, families: readonly Family[]): void {
  for (const family of families) {
    const policies = [compilePolicy(a, family), compilePolicy(b, family)] as const;
    assert.deepEqual(allowedSources(policies[0]), allowedSources(policies[1]));
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

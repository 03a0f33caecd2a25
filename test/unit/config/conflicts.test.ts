import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Prefix, prefixAt, truncate } from '../../../lib/cidr/prefix.ts';
import { isIn, rangeOf } from '../../../lib/cidr/ranges.ts';
import { LEFT_ALONE } from '../../../lib/cidr/reserved.ts';
import type { ParsedConfig } from '../../../lib/config/config.ts';
import { findConflicts } from '../../../lib/config/conflicts.ts';
import { type CIDR_KEYS, mergeKeys } from '../../../lib/config/keys.ts';
import { locationText, type ProblemKind } from '../../../lib/config/problem.ts';
import { compilePolicy, decider } from '../../../lib/policy/policy.ts';
import { formatOrigin, type Origin } from '../../../lib/text/origin.ts';
import { BITS, FAMILIES, longest, surrounds } from '../cidr/arbitrary.ts';
import { anyParsedConfig } from './arbitrary.ts';
import { merge } from './support.ts';

describe('conflicts', () => {
  for (const family of FAMILIES) {
    for (const { key, topic, prefix: range } of LEFT_ALONE[family])
      it(`of ${family} ${topic} are found if and only if a key that is true does not decide for any address`, () => {
        const around = fc
          .integer({ min: 0, max: range.length })
          .map((length) => prefixAt(family, truncate(range.address, length, family), length));
        const within = fc
          .nat(1)
          .map((half) =>
            prefixAt(
              family,
              range.address + (BigInt(half) << BigInt(BITS[family] - range.length - 1)),
              range.length + 1,
            ),
          );
        const list = fc.uniqueArray(fc.oneof(around, within), { maxLength: 3, selector: ({ text }) => text });
        fc.assert(
          fc.property(list, list, (inside, outside) => {
            const texts = (prefixes: readonly Prefix[]) => JSON.stringify(prefixes.map(({ text }) => text));
            const others = outside.filter(({ text }) => inside.every((one) => one.text !== text));
            const text = `${key}: true\nnonMasqueradeCIDRs: ${texts(inside)}\nmasqueradeCIDRs: ${texts(others)}`;
            const { config, problems } = merge({ a: text });
            assert.ok(config);
            const verdictOf = decider(compilePolicy(config, family));
            const narrower = [...inside, ...others].filter(({ length }) => length > range.length);
            const samples = Array.from(
              { length: 16 },
              (_, n) => range.address + (BigInt(n) << BigInt(BITS[family] - range.length - 4)),
            );
            const undecided = samples.filter((value) => !narrower.some((one) => isIn(value, rangeOf(one))));
            const isFound = problems.some(({ kind }) => kind === `${topic}-entry`);
            for (const value of undecided)
              assert.equal(verdictOf({ family, value })?.verdict === 'not_masqueraded', isFound, text);
          }),
        );
      });

    it(`between ${family} entries are those that a comparison of all with all finds`, () => {
      const byFile = { selector: ({ configFileName }: ParsedConfig) => configFileName, maxLength: 4 };
      const configs = fc.uniqueArray(anyParsedConfig(family), byFile);
      fc.assert(
        fc.property(configs, (configs) => {
          const found = [...findConflicts(configs, mergeKeys(configs))]
            .filter(({ kind }) => COMPARED.includes(kind))
            .map(
              ({ kind, at, other }) => `${kind} ${at && locationText(at)} ${other && formatOrigin(other)}`,
            );
          assert.deepEqual(found.toSorted(), naiveConflicts(configs).toSorted());
        }),
        { numRuns: 200 },
      );
    });
  }
});

/** The kinds of conflicts that a comparison of all entries with all finds. */
const COMPARED: readonly ProblemKind[] = [
  ...(['duplicate', 'both-lists', 'covered', 'opposite-nested', 'address-range'] as const),
];

interface Item {
  readonly list: (typeof CIDR_KEYS)[number];
  readonly prefix: Prefix;
  readonly configFile: string;
  readonly origin: Origin;
}

function naiveConflicts(configs: readonly ParsedConfig[]): readonly string[] {
  return [
    ...naiveConflictsIn(configs, ['nonMasqueradeCIDRs', 'masqueradeCIDRs']),
    ...naiveConflictsIn(configs, ['masqueradeFromCIDRs', 'nonMasqueradeFromCIDRs']),
    ...naiveAddressConflicts(configs),
  ];
}

function naiveAddressConflicts(configs: readonly ParsedConfig[]): readonly string[] {
  const items = configs.flatMap((config) =>
    config.masqueradeAddresses.map(({ value, origin }) => ({ ...value, prefix: value.destination, origin })),
  );
  const firsts = firstsOf(items);
  return items.flatMap((item) => {
    const first = firsts.find(({ prefix }) => prefix.text === item.prefix.text);
    if (first === undefined || first === item) return [];
    const kind = first.range.text === item.range.text ? 'duplicate' : 'address-range';
    return `${kind} ${formatOrigin(item.origin)} ${formatOrigin(first.origin)}`;
  });
}

function itemsIn(configs: readonly ParsedConfig[], lists: readonly Item['list'][]): readonly Item[] {
  return lists.flatMap((list) =>
    configs.flatMap((config) =>
      config[list].map(
        ({ value, origin }): Item => ({ list, prefix: value, configFile: config.configFileName, origin }),
      ),
    ),
  );
}

/** The items without those whose prefix an earlier one has. */
function firstsOf<Some extends { readonly prefix: Prefix }>(items: readonly Some[]): readonly Some[] {
  return items.filter((item) => items.find(({ prefix }) => prefix.text === item.prefix.text) === item);
}

function naiveConflictsIn(
  configs: readonly ParsedConfig[],
  lists: readonly Item['list'][],
): readonly string[] {
  const items = itemsIn(configs, lists);
  const firstOf = (item: Item) => items.find(({ prefix }) => prefix.text === item.prefix.text) ?? item;
  const firsts = items.filter((item) => firstOf(item) === item);
  const line = (kind: string, item: Item, other: Item): string =>
    `${kind} ${formatOrigin(item.origin)} ${formatOrigin(other.origin)}`;
  const repeats = items
    .filter((item) => firstOf(item) !== item)
    .map((item) => line(firstOf(item).list === item.list ? 'duplicate' : 'both-lists', item, firstOf(item)));
  const nested = firsts.flatMap((item) => {
    const around = longest(firsts.filter(({ prefix }) => surrounds(prefix, item.prefix)));
    if (around === undefined) return [];
    if (around.list === item.list) return line('covered', item, around);
    return around.configFile === item.configFile ? [] : line('opposite-nested', item, around);
  });
  return [...repeats, ...nested];
}

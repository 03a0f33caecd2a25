import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Prefix, prefixAt, truncate } from '../../../lib/cidr/prefix.ts';
import { isIn, rangeOf } from '../../../lib/cidr/ranges.ts';
import { LEFT_ALONE } from '../../../lib/cidr/reserved.ts';
import type { ParsedConfig } from '../../../lib/config/config.ts';
import { findConflicts } from '../../../lib/config/conflicts.ts';
import { type CIDR_KEYS, mergeKeys } from '../../../lib/config/keys.ts';
import { CONFLICT_KINDS, locationText, type Problem, type ProblemKind } from '../../../lib/config/problem.ts';
import { compilePolicy, decider } from '../../../lib/policy/policy.ts';
import { formatOrigin, type Origin } from '../../../lib/text/origin.ts';
import { casesOf } from '../../lab/cases.ts';
import { BITS, FAMILIES, longest, surrounds } from '../cidr/arbitrary.ts';
import { anyParsedConfig } from './arbitrary.ts';
import { merge, textsOf } from './support.ts';

type Texts = Readonly<Record<string, string>>;

/** Lines of config files behind their names; what is found, with its place and the other place, and in the end one message of each form. */
const FOUND = casesOf(`
  one prefix in both lists
    a: masqueradeCIDRs: [10.0.0.0/8]
    a: nonMasqueradeCIDRs: [10.0.0.0/8]
    > error both-lists a:1:19 a:2:22 10.0.0.0/8 is in nonMasqueradeCIDRs and in masqueradeCIDRs; remove it from one of the two lists
  one prefix of IPv6 in both lists, spelt differently
    a: masqueradeCIDRs: [fd00::/8]
    b: nonMasqueradeCIDRs: [FD00:0::/8]
    > error both-lists a:1:19 b:1:22
  a resync interval that differs from that of the first config file
    a: resyncInterval: 60s
    b: {}
    c: resyncInterval: 1m1s
    > error resync-interval c:1:17 a:1:17 resyncInterval is 1m1s here, but 1m0s in another config file; set it in one config file only, or to the same value
  two resync intervals that differ from that of the first config file
    a: resyncInterval: 1m
    b: resyncInterval: 2m
    c: resyncInterval: 60s
    d: resyncInterval: 2m
    > error resync-interval b:1:17 a:1:17
    > error resync-interval d:1:17 a:1:17
  an explicit false beside a true
    a: masqLinkLocal: false
    b: masqLinkLocal: true
    > warning link-local-flag a:1:16 b:1:16 masqLinkLocal is false here, but true in another config file: true wins; make the config files agree
  an explicit false between two that are true
    a: masqLinkLocalIPv6: true
    b: masqLinkLocalIPv6: false
    c: masqLinkLocalIPv6: true
    > warning link-local-flag b:1:20 a:1:20
  an entry around link-local, of which its flag says otherwise
    a: masqLinkLocal: true
    b: nonMasqueradeCIDRs: [0.0.0.0/0]
    > warning link-local-entry b:1:22 a:1:16 0.0.0.0/0 is in nonMasqueradeCIDRs and contains 169.254.0.0/16, but masqLinkLocal is true; this entry wins: 169.254.0.0/16 is not masqueraded; add 169.254.0.0/16 to masqueradeCIDRs, or set masqLinkLocal: false
  one of several entries, which decides for link-local
    a: masqLinkLocal: true
    a: nonMasqueradeCIDRs: [0.0.0.0/1, 128.0.0.0/1, 169.254.169.254/32]
    > warning link-local-entry a:2:33 a:1:16
    > info covered a:2:46
  an entry around link-local of IPv6
    a: masqLinkLocalIPv6: true
    b: nonMasqueradeCIDRs: ["fe00::/7"]
    > warning link-local-entry b:1:22 a:1:20 fe00::/7
  link-local that is listed to be masqueraded, without its flag
    a: masqueradeCIDRs: [169.254.0.0/16]
    > warning link-local-entry a:1:19 - 169.254.0.0/16 is in masqueradeCIDRs, but masqLinkLocal is false; the key wins: it is not masqueraded; remove the entry, or set masqLinkLocal: true
  link-local that is listed not to be masqueraded, with its flag
    a: nonMasqueradeCIDRs: [169.254.0.0/16]
    b: masqLinkLocal: true
    > warning link-local-entry a:1:22 b:1:16 169.254.0.0/16 is in nonMasqueradeCIDRs, but masqLinkLocal is true; this entry wins: 169.254.0.0/16 is not masqueraded; remove the entry, or set masqLinkLocal: false
  link-local of IPv6 with the flag of IPv4
    a: masqueradeCIDRs: [fe80::/10]
    b: masqLinkLocal: true
    > warning link-local-entry a:1:19 - fe80::/10 is in masqueradeCIDRs, but masqLinkLocalIPv6 is false
  an entry nested in one of the opposite verdict from another config file
    a: nonMasqueradeCIDRs: [10.0.0.0/8]
    b: masqueradeCIDRs: [10.1.0.0/16]
    > info opposite-nested b:1:19 a:1:22 10.1.0.0/16 in masqueradeCIDRs is inside 10.0.0.0/8 in nonMasqueradeCIDRs of another config file; nothing to do if meant so: the longest prefix decides
  a duplicate
    a: nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]
    > info duplicate a:1:34 a:1:22 10.0.0.0/8 is listed twice; one of the two can go
  an entry that another covers
    a: nonMasqueradeCIDRs: [10.1.0.0/16, 10.0.0.0/8]
    > info covered a:1:22 a:1:35 10.1.0.0/16 is already covered by 10.0.0.0/8; it can go
  an entry that link-local covers
    a: nonMasqueradeCIDRs: [169.254.1.0/24]
    > info covered a:1:22 built in (RFC 3927)
  a range that packets come from, listed twice or covered
    a: masqueradeFromCIDRs: [10.0.0.0/8]
    b: masqueradeFromCIDRs: [10.0.0.0/8, 10.1.0.0/16]
    > info duplicate b:1:23 a:1:23 10.0.0.0/8 is listed twice; one of the two can go
    > info covered b:1:35 a:1:23 10.1.0.0/16 is already covered by 10.0.0.0/8; it can go
  a range that packets come from and must not come from
    a: nonMasqueradeFromCIDRs: [10.0.0.0/8]
    b: masqueradeFromCIDRs: [10.0.0.0/8]
    > error both-lists a:1:26 b:1:23 10.0.0.0/8 is in masqueradeFromCIDRs and in nonMasqueradeFromCIDRs; remove it from one of the two lists
    > info limits-others b:1:23 -
  a part of a range that packets come from
    a: masqueradeFromCIDRs: [10.0.0.0/8]
    b: nonMasqueradeFromCIDRs: [10.1.0.0/16]
    > info opposite-nested b:1:26 a:1:23 10.1.0.0/16 in nonMasqueradeFromCIDRs is inside 10.0.0.0/8 in masqueradeFromCIDRs of another config file; nothing to do if meant so: the longest prefix decides
    > info limits-others a:1:23 -
  a destination with two ranges for its address
    a: masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24}]
    b: masqueradeAddresses:
    b: - {destination: 0.0.0.0/0, address: 203.0.113.0/24}
    b: - {destination: 0.0.0.0/0, address: 198.51.100.0/24}
    > error address-range b:2:3 a:1:23 packets to 0.0.0.0/0 leave with an address in 203.0.113.0/24 here, but with one in 198.51.100.0/24 in another item; keep one of the two items
    > info duplicate b:3:3 a:1:23 0.0.0.0/0 is listed twice; one of the two can go
  a destination with an address in which nothing is masqueraded
    a: nonMasqueradeCIDRs: [10.0.0.0/8]
    b: masqueradeAddresses:
    b: - {destination: 10.1.0.0/16, address: 198.51.100.0/24}
    b: - {destination: 10.0.0.0/8, address: 203.0.113.0/24}
    > info address-unused b:2:3 a:1:22 packets to 10.1.0.0/16 need no address: 10.0.0.0/8 is not masqueraded; remove the item, or add what is to be masqueraded to masqueradeCIDRs
    > info address-unused b:3:3 a:1:22
  an address for link-local, which is not masqueraded
    a: masqueradeAddresses: [{destination: 169.254.0.0/16, address: 198.51.100.0/24}]
    b: masqueradeCIDRs: [169.254.0.0/16]
    > warning link-local-entry b:1:19 -
    > info address-unused a:1:23 built in (RFC 3927)
  a config file that limits what others ask for
    a: nonMasqueradeCIDRs: [10.0.0.0/8]
    b: masqueradeFromCIDRs: [10.244.0.0/16]
    > info limits-others b:1:23 - masqueradeFromCIDRs limits what all config files ask for, also those that do not set it: only packets from these ranges are masqueraded; nothing to do if meant so, and if the ranges of all pods are listed
  a config file that limits what others ask for in one family
    a: masqueradeFromCIDRs: ["fd00:10:244::/56", 10.244.0.0/16]
    b: masqueradeFromCIDRs: ["fd00:10:245::/56"]
    > info limits-others a:1:43
`);

const NOTHING: Readonly<Record<string, Texts>> = {
  'an exception from link-local is inside a wider exception': {
    a: 'masqueradeCIDRs: [169.0.0.0/8, 169.254.1.0/24]',
  },
  'no config file says anything': { a: '{}', b: 'nonMasqueradeCIDRs: []' },
  'an exception has an exception in the same config file': {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.1.1.0/24]\nmasqueradeCIDRs: [10.1.0.0/16]',
  },
  'a list of ranges that packets come from is empty': { a: '{}', b: 'masqueradeFromCIDRs: []' },
  'packets come from what is inside or masqueraded, link-local too': {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.1.0.0/16]\nmasqueradeFromCIDRs: [10.0.0.0/8, 169.254.0.0/16]',
  },
  'a destination with an address holds an exception, or is inside one': {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.1.0.0/16]',
    b: 'masqueradeAddresses: [{destination: 10.0.0.0/8, address: 198.51.100.0/24}, {destination: 10.1.2.0/24, address: 203.0.113.0/24}]',
  },
  'equal bits are of two families': { a: 'nonMasqueradeCIDRs: [0.0.0.0/0]\nmasqueradeCIDRs: ["::/0"]' },
  'a range of destinations is one of sources too': {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nnonMasqueradeFromCIDRs: [10.0.0.0/8]',
  },
  'intervals are equal in other words': { a: 'resyncInterval: 1.1h', b: 'resyncInterval: 66m' },
  'one config file only has an interval': { a: 'resyncInterval: 60s', b: '{}' },
  'flags agree': { a: 'masqLinkLocal: true', b: 'masqLinkLocal: true', c: 'masqLinkLocalIPv6: false' },
  'a true stands beside silence': { a: 'masqLinkLocal: true', b: '{}' },
  'flags of two families differ': { a: 'masqLinkLocal: true', b: 'masqLinkLocalIPv6: false' },
  'link-local is listed as the flag says': {
    a: 'nonMasqueradeCIDRs: [169.254.0.0/16]\nmasqueradeCIDRs: ["fe80::/10"]\nmasqLinkLocalIPv6: true',
  },
  'link-local is an exception from all that is inside, as the flag says': {
    a: 'nonMasqueradeCIDRs: [0.0.0.0/0]\nmasqueradeCIDRs: [169.254.0.0/16]\nmasqLinkLocal: true',
  },
  'a part of link-local is listed': { a: 'masqueradeCIDRs: [169.254.169.254/32, "fe80::/64"]' },
};

describe('a conflict is', () => {
  for (const { name, given, found } of FOUND)
    it(name, () => {
      const lines = merge(textsOf(given)).problems.map(conflictLine);
      const begins = lines.map((line, index) => line.slice(0, found[index]?.length));
      assert.deepEqual(begins, found);
    });

  it('of each kind in some config files', () => {
    const found = FOUND.flatMap(({ given }) => merge(textsOf(given)).problems);
    const kinds = new Set<string>(found.map(({ kind }) => kind));
    assert.deepEqual(
      Object.keys(CONFLICT_KINDS).filter((kind) => !kinds.has(kind)),
      [],
    );
  });
});

describe('there is no conflict if', () => {
  for (const [name, texts] of Object.entries(NOTHING)) {
    it(name, () => {
      assert.deepEqual(merge(texts).lines, []);
      assert.ok(merge(texts, { strict: true }).config);
    });
  }
});

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
        { numRuns: 500 },
      );
    });
  }
});

function conflictLine({ severity, kind, at, other, message, remedy }: Problem): string {
  const [place, theOther] = [at, other].map((origin) => (origin === undefined ? '-' : locationText(origin)));
  return `${severity} ${kind} ${place} ${theOther} ${message}; ${remedy}`;
}

/** The kinds of conflicts that a comparison of all entries with all finds. */
const COMPARED: readonly ProblemKind[] = [
  ...(['duplicate', 'both-lists', 'covered', 'opposite-nested', 'address-range', 'address-unused'] as const),
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
  const verdicts = firstsOf(itemsIn(configs, ['nonMasqueradeCIDRs', 'masqueradeCIDRs']));
  const around = <Some extends { readonly prefix: Prefix }>(all: readonly Some[], prefix: Prefix) =>
    longest(all.filter((one) => one.prefix.text === prefix.text || surrounds(one.prefix, prefix)));
  return items.flatMap((item) => {
    const line = (kind: string, other: Pick<Item, 'origin'>) =>
      `${kind} ${formatOrigin(item.origin)} ${formatOrigin(other.origin)}`;
    const first = firsts.find(({ prefix }) => prefix.text === item.prefix.text);
    if (first !== undefined && first !== item)
      return line(first.range.text === item.range.text ? 'duplicate' : 'address-range', first);
    const decides = around(verdicts, item.prefix);
    const isUsed = verdicts.some(
      ({ list, prefix }) => list === 'masqueradeCIDRs' && around(firsts, prefix) === item,
    );
    if (decides?.list === 'nonMasqueradeCIDRs' && !isUsed) return line('address-unused', decides);
    const wider = longest(firsts.filter(({ prefix }) => surrounds(prefix, item.prefix)));
    return wider?.range.text === item.range.text ? line('covered', wider) : [];
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

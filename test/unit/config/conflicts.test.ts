import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Prefix } from '../../../lib/cidr/prefix.ts';
import type { SourceConfig } from '../../../lib/config/config.ts';
import { findConflicts } from '../../../lib/config/conflicts.ts';
import { formatOrigin, type Origin } from '../../../lib/config/origin.ts';
import { formatPlace } from '../../../lib/config/problem.ts';
import { FAMILIES, longest, surrounds } from '../cidr/arbitrary.ts';
import { anySourceConfig } from './arbitrary.ts';
import { merge } from './support.ts';

type Texts = Readonly<Record<string, string>>;

const NOT_MASQUERADED = 'it is not masqueraded; remove the entry, or set';
const LONGEST = 'nothing to do if meant so: the longest prefix decides';

const FOUND: Readonly<
  Record<string, readonly (readonly [name: string, texts: Texts, lines: readonly string[]])[]>
> = {
  'one prefix in both lists': [
    [
      'of one source',
      { a: 'masqueradeCIDRs: [10.0.0.0/8]\nnonMasqueradeCIDRs: [10.0.0.0/8]' },
      [
        'a:1:19: error: 10.0.0.0/8 is in nonMasqueradeCIDRs and in masqueradeCIDRs (the other: a:2:22); remove it from one of the two lists',
      ],
    ],
    [
      'of two sources',
      { a: 'masqueradeCIDRs: [fd00::/8]', b: 'nonMasqueradeCIDRs: [FD00:0::/8]' },
      [
        'a:1:19: error: fd00::/8 is in nonMasqueradeCIDRs and in masqueradeCIDRs (the other: b:1:22); remove it from one of the two lists',
      ],
    ],
    [
      'of three sources, each time that it is',
      {
        a: 'nonMasqueradeCIDRs: [10.0.0.0/8]',
        b: 'masqueradeCIDRs: [10.0.0.0/8]',
        c: 'masqueradeCIDRs: [10.0.0.0/8]',
      },
      [
        'b:1:19: error: 10.0.0.0/8 is in nonMasqueradeCIDRs and in masqueradeCIDRs (the other: a:1:22); remove it from one of the two lists',
        'c:1:19: error: 10.0.0.0/8 is in nonMasqueradeCIDRs and in masqueradeCIDRs (the other: a:1:22); remove it from one of the two lists',
      ],
    ],
  ],
  'a resync interval that differs': [
    [
      'in two sources',
      { a: 'resyncInterval: 60s', b: '{}', c: 'resyncInterval: 1m1s' },
      [
        'c:1:17: error: resyncInterval is 61000ms here, but 60000ms in another source (the other: a:1:17); set it in one source only, or to the same value',
      ],
    ],
    [
      'in each of the later ones that disagree with the first',
      { a: 'resyncInterval: 1m', b: 'resyncInterval: 2m', c: 'resyncInterval: 60s', d: 'resyncInterval: 2m' },
      [
        'b:1:17: error: resyncInterval is 120000ms here, but 60000ms in another source (the other: a:1:17); set it in one source only, or to the same value',
        'd:1:17: error: resyncInterval is 120000ms here, but 60000ms in another source (the other: a:1:17); set it in one source only, or to the same value',
      ],
    ],
  ],
  'an explicit false beside a true': [
    [
      'before it',
      { a: 'masqLinkLocal: false', b: 'masqLinkLocal: true' },
      [
        `a:1:16: warning: masqLinkLocal is false here, but true in another source: true wins (the other: b:1:16); make the sources agree`,
      ],
    ],
    [
      'behind it, for IPv6',
      { a: 'masqLinkLocalIPv6: true', b: 'masqLinkLocalIPv6: false', c: 'masqLinkLocalIPv6: true' },
      [
        `b:1:20: warning: masqLinkLocalIPv6 is false here, but true in another source: true wins (the other: a:1:20); make the sources agree`,
      ],
    ],
  ],
  'the link-local prefix itself': [
    [
      'to be masqueraded, while the flag says no',
      { a: 'masqueradeCIDRs: [169.254.0.0/16]' },
      [
        `a:1:19: warning: 169.254.0.0/16 is in masqueradeCIDRs, but masqLinkLocal is false; the flag wins: ${NOT_MASQUERADED} masqLinkLocal: true`,
      ],
    ],
    [
      'not to be masqueraded, while the flag says yes',
      { a: 'nonMasqueradeCIDRs: [169.254.0.0/16]', b: 'masqLinkLocal: true' },
      [
        `a:1:22: warning: 169.254.0.0/16 is in nonMasqueradeCIDRs, but masqLinkLocal is true; this entry wins: ${NOT_MASQUERADED} masqLinkLocal: false`,
      ],
    ],
    [
      'of IPv6',
      { a: 'masqueradeCIDRs: [fe80::/10]', b: 'masqLinkLocal: true' },
      [
        `a:1:19: warning: fe80::/10 is in masqueradeCIDRs, but masqLinkLocalIPv6 is false; the flag wins: ${NOT_MASQUERADED} masqLinkLocalIPv6: true`,
      ],
    ],
  ],
  'an entry nested in one of the opposite verdict': [
    [
      'from another source, an exception',
      { a: 'nonMasqueradeCIDRs: [10.0.0.0/8]', b: 'masqueradeCIDRs: [10.1.0.0/16]' },
      [
        `b:1:19: info: 10.1.0.0/16 in masqueradeCIDRs is inside 10.0.0.0/8 in nonMasqueradeCIDRs of another source (the other: a:1:22); ${LONGEST}`,
      ],
    ],
    [
      'from another source, the other way round',
      { a: 'nonMasqueradeCIDRs: [10.1.0.0/16]', b: 'masqueradeCIDRs: [10.0.0.0/8]' },
      [
        `a:1:22: info: 10.1.0.0/16 in nonMasqueradeCIDRs is inside 10.0.0.0/8 in masqueradeCIDRs of another source (the other: b:1:19); ${LONGEST}`,
      ],
    ],
  ],
  'a duplicate': [
    [
      'in one source',
      { a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]' },
      ['a:1:34: info: 10.0.0.0/8 is listed twice (the other: a:1:22); one of the two can go'],
    ],
    [
      'in two sources, however it is spelt',
      { a: 'masqueradeCIDRs: ["2001:DB8:0::/48"]', b: 'masqueradeCIDRs: ["2001:db8::/48"]' },
      ['b:1:19: info: 2001:db8::/48 is listed twice (the other: a:1:19); one of the two can go'],
    ],
  ],
  'an entry that another covers': [
    [
      'in one source',
      { a: 'nonMasqueradeCIDRs: [10.1.0.0/16, 10.0.0.0/8]' },
      ['a:1:22: info: 10.1.0.0/16 is already covered by 10.0.0.0/8 (the other: a:1:35); it can go'],
    ],
    [
      'in another source, naming the nearest',
      { a: 'nonMasqueradeCIDRs: [0.0.0.0/0, 10.0.0.0/8]', b: 'nonMasqueradeCIDRs: [10.1.0.0/16]' },
      [
        'a:1:33: info: 10.0.0.0/8 is already covered by 0.0.0.0/0 (the other: a:1:22); it can go',
        'b:1:22: info: 10.1.0.0/16 is already covered by 10.0.0.0/8 (the other: a:1:33); it can go',
      ],
    ],
    [
      'by default',
      { a: 'nonMasqueradeCIDRs: [169.254.1.0/24]' },
      [
        'a:1:22: info: 169.254.1.0/24 is already covered by 169.254.0.0/16 (the other: built in (RFC 3927)); it can go',
      ],
    ],
  ],
};

const NOTHING: Readonly<Record<string, Texts>> = {
  'an exception from link-local is inside a wider exception': {
    a: 'masqueradeCIDRs: [169.0.0.0/8, 169.254.1.0/24]',
  },
  'no source says anything': { a: '{}', b: 'nonMasqueradeCIDRs: []' },
  'lists are apart': {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8]',
    b: 'nonMasqueradeCIDRs: [11.0.0.0/8]',
  },
  'a source makes an exception of its own': {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.1.0.0/16]',
  },
  'an exception has an exception in the same source': {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.1.1.0/24]\nmasqueradeCIDRs: [10.1.0.0/16]',
  },
  'equal bits are of two families': { a: 'nonMasqueradeCIDRs: [0.0.0.0/0]\nmasqueradeCIDRs: ["::/0"]' },
  'equal addresses have different lengths, no one holding the other': {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/9, 10.128.0.0/9]',
  },
  'intervals are equal in other words': { a: 'resyncInterval: 1.1h', b: 'resyncInterval: 66m' },
  'one source only has an interval': { a: 'resyncInterval: 60s', b: '{}' },
  'flags agree': { a: 'masqLinkLocal: true', b: 'masqLinkLocal: true', c: 'masqLinkLocalIPv6: false' },
  'a true stands beside silence': { a: 'masqLinkLocal: true', b: '{}' },
  'flags of two families differ': { a: 'masqLinkLocal: true', b: 'masqLinkLocalIPv6: false' },
  'link-local is listed as the flag says': {
    a: 'nonMasqueradeCIDRs: [169.254.0.0/16]\nmasqueradeCIDRs: ["fe80::/10"]\nmasqLinkLocalIPv6: true',
  },
  'a part of link-local is listed': { a: 'masqueradeCIDRs: [169.254.169.254/32, "fe80::/64"]' },
};

describe('a conflict is', () => {
  for (const [kind, cases] of Object.entries(FOUND)) {
    describe(kind, () => {
      for (const [name, texts, lines] of cases) {
        it(name, () => assert.deepEqual(merge(texts).lines, lines));
      }
    });
  }
});

describe('there is no conflict where', () => {
  for (const [name, texts] of Object.entries(NOTHING)) {
    it(name, () => {
      assert.deepEqual(merge(texts).lines, []);
      assert.ok(merge(texts, { strict: true }).config);
    });
  }
});

describe('conflicts', () => {
  it('come in order: errors, warnings, then the rest; each kind by source', () => {
    const { problems } = merge({
      a: 'masqLinkLocal: false\nnonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8, 11.0.0.0/8]\nresyncInterval: 1m',
      b: 'masqLinkLocal: true\nmasqueradeCIDRs: [11.0.0.0/8, 10.1.0.0/16]\nresyncInterval: 2m',
    });
    assert.deepEqual(
      problems.map(({ severity, kind }) => `${severity} ${kind}`),
      [
        'error resync-interval',
        'error both-lists',
        'warning link-local-flag',
        'info duplicate',
        'info opposite-nested',
      ],
    );
  });

  for (const family of FAMILIES) {
    it(`between ${family} entries are those that a comparison of all with all finds`, () => {
      const configs = fc.uniqueArray(anySourceConfig(family), {
        selector: ({ source }) => source,
        maxLength: 4,
      });
      fc.assert(
        fc.property(configs, (configs) => {
          const kinds = ['duplicate', 'both-lists', 'covered', 'opposite-nested'];
          const found = findConflicts(configs, { IPv4: false, IPv6: false })
            .filter(({ kind }) => kinds.includes(kind))
            .map(({ kind, at, other }) => `${kind} ${at && formatPlace(at)} ${other && formatOrigin(other)}`);
          assert.deepEqual(found.toSorted(), naiveConflicts(configs).toSorted());
        }),
        { numRuns: 500 },
      );
    });
  }
});

interface Item {
  readonly list: 'nonMasqueradeCIDRs' | 'masqueradeCIDRs';
  readonly prefix: Prefix;
  readonly source: string;
  readonly origin: Origin;
}

function naiveConflicts(configs: readonly SourceConfig[]): readonly string[] {
  const items = (['nonMasqueradeCIDRs', 'masqueradeCIDRs'] as const).flatMap((list) =>
    configs.flatMap((config) =>
      config[list].map(({ value, origin }): Item => ({ list, prefix: value, source: config.source, origin })),
    ),
  );
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
    return around.source === item.source ? [] : line('opposite-nested', item, around);
  });
  return [...repeats, ...nested];
}

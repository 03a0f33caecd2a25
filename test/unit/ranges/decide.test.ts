import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import { type Claim, nodeClaims } from '../../../lib/ranges/claims.ts';
import { decide, type ListPlan, rejectedText, type Situation } from '../../../lib/ranges/decide.ts';
import { claims, MINUTE, NOW, OPTIONS, prefix, uses } from './support.ts';

interface Given {
  readonly node?: string;
  readonly address?: string;
  readonly declared?: string;
  readonly static?: string;
  readonly first?: string;
  readonly last?: string;
  readonly options?: Partial<typeof OPTIONS>;
  readonly alone?: true;
  readonly accepted?: string;
}

function situationOf(given: Given): Situation {
  const kinds = ['node', 'address', 'declared', 'static', 'first'] as const;
  return {
    claims: kinds.flatMap((kind) => claims(kind, given[kind] ?? '')),
    last: uses(given.last ?? ''),
    now: NOW,
    hasOtherFiles: !given.alone,
    accepted: given.accepted,
  };
}

/** The list as text, or the reason why there is none; behind it, in brackets, how many claims are rejected. */
function outcome(decision: ListPlan): string {
  const list = decision.entries.map(({ prefix: { text } }) => text).join(' ');
  const rejected = decision.rejected.length === 0 ? '' : ` (${decision.rejected.length})`;
  return `${decision.refusal?.reason ?? list}${rejected}`;
}

const TWO = '10.244.0.0/24 10.244.1.0/24';
const RFC_1918 = '10.0.0.0/8 172.16.0.0/12 192.168.0.0/16';
const MANY = Array.from({ length: 1001 }, (_, index) => `10.${index >> 8}.${index & 255}.0/32`);
const only = (family: Family) => ({ config: { ...OPTIONS.config, families: [family] } });

/** What is given, and what comes of it. */
const ROWS: Readonly<Record<string, readonly [Given, string]>> = {
  // What is in the list
  'nodes side by side are one entry': [{ node: '10.244.1.0/24 10.244.0.0/24' }, '10.244.0.0/23'],
  'nodes that do not fill a prefix are several': [
    { node: `${TWO} 10.244.2.0/24` },
    '10.244.0.0/23 10.244.2.0/24',
  ],
  'two nodes that are not of one prefix': [
    { node: '10.244.1.0/24 10.244.2.0/24' },
    '10.244.1.0/24 10.244.2.0/24',
  ],
  'a range in another': [{ node: '10.244.0.0/16 10.244.7.0/24' }, '10.244.0.0/16'],
  'two families': [{ node: '10.244.0.0/24 FD00::/64' }, '10.244.0.0/24 fd00::/64'],
  'several pools': [
    { declared: '10.244.0.0/17 10.244.128.0/17 192.168.0.0/20' },
    '10.244.0.0/16 192.168.0.0/20',
  ],
  'a static range of public addresses': [{ static: '203.0.113.0/24' }, '203.0.113.0/24'],
  'addresses beside ranges of pods': [
    { node: TWO, address: '192.168.1.4/32 192.168.1.5/32' },
    '10.244.0.0/23 192.168.1.4/31',
  ],
  'all of a bound': [{ declared: '10.0.0.0/8' }, '10.0.0.0/8'],
  'one family is kept': [{ node: '10.244.0.0/24 fd00::/64', options: only('IPv4') }, '10.244.0.0/24'],
  'only the other family is kept': [{ node: '10.244.0.0/24', options: only('IPv6') }, 'no-ranges'],
  'another bound': [
    { node: '10.244.0.0/24 10.1.0.0/24', options: { within: [prefix('10.244.0.0/16')] } },
    '10.244.0.0/24 (1)',
  ],
  // What is rejected
  'a pool of all addresses': [{ declared: '0.0.0.0/0', node: '10.244.0.0/24' }, '10.244.0.0/24 (1)'],
  'all IPv6': [{ node: '10.244.0.0/24 ::/0' }, '10.244.0.0/24 (1)'],
  'wider than a bound': [{ node: '10.244.0.0/24 10.0.0.0/7' }, '10.244.0.0/24 (1)'],
  'no CIDR': [{ node: '10.244.0.0/24 10.244.1.7/24 evil/32 10.244.1.0' }, '10.244.0.0/24 (3)'],
  'YAML in a range': [{ node: '10.244.0.0/24 10.0.0.0/8\n-0.0.0.0/0' }, '10.244.0.0/24 (1)'],
  'a public address of a node': [{ node: TWO, address: '203.0.113.9/32' }, '10.244.0.0/23 (1)'],
  'only what is rejected': [{ node: '8.8.8.0/24' }, 'no-ranges (1)'],
  // What tells no ranges of pods
  nothing: [{}, 'no-ranges'],
  'only RFC 1918 for the first list': [{ first: RFC_1918 }, 'no-ranges'],
  'only addresses of nodes': [{ address: '192.168.1.5/32' }, 'no-ranges'],
  'nothing any more': [{ last: 'now 10.244.0.0/24' }, 'no-ranges'],
  // The grace
  'a node went within the grace': [
    { node: '10.244.0.0/24', last: 'now 10.244.0.0/24, 29 10.244.1.0/24' },
    '10.244.0.0/23',
  ],
  'the grace is over': [
    { node: '10.244.0.0/24', last: 'now 10.244.0.0/24, 30 10.244.1.0/24' },
    '10.244.0.0/24',
  ],
  'it came back': [{ node: TWO, last: 'now 10.244.0.0/24, 40 10.244.1.0/24' }, '10.244.0.0/23'],
  'it went twice: the later time counts': [
    { node: '10.244.0.0/24', last: '40 10.244.1.0/24, 10 10.244.1.0/24' },
    '10.244.0.0/23',
  ],
  'a part of it was used later': [
    { node: '10.244.0.0/16', last: 'now 10.244.0.0/16, 40 10.245.0.0/16, 10 10.245.7.0/24' },
    '10.244.0.0/16 10.245.7.0/24',
  ],
  'no grace': [
    { node: TWO, last: 'now 10.244.0.0/24 10.244.1.0/24 10.244.2.0/24', options: { grace: 0 } },
    '10.244.0.0/23',
  ],
  'all nodes but one vanish': [{ node: '10.244.0.0/24', last: 'now 10.244.0.0/16' }, '10.244.0.0/16'],
  'what is remembered is cut at the bound': [
    { node: '10.244.0.0/24', last: 'now 10.244.0.0/23', options: { within: [prefix('10.244.0.0/24')] } },
    '10.244.0.0/24',
  ],
  'the grace of a family that is not kept any more': [
    { node: '10.244.0.0/24', last: 'now fd00::/64', options: only('IPv4') },
    '10.244.0.0/24',
  ],
  // What leaves at once
  'half may leave': [{ node: '10.244.0.0/24', last: '40 10.244.0.0/23' }, '10.244.0.0/24'],
  'more than half may not': [{ node: '10.244.0.0/24', last: '40 10.244.0.0/22' }, 'removes-too-much'],
  'what comes does not make up for it': [
    { node: '10.1.0.0/16', last: '40 10.244.0.0/16' },
    'removes-too-much',
  ],
  'each family for itself': [
    { node: '10.244.0.0/16', last: 'now 10.244.0.0/16, 40 fd00::/64' },
    'removes-too-much',
  ],
  'another share': [
    { node: '10.244.0.0/24', last: '40 10.244.0.0/22', options: { mostRemoved: 75 } },
    '10.244.0.0/24',
  ],
  'any share': [
    { node: '10.1.0.0/16', last: '40 10.244.0.0/16', options: { mostRemoved: 100 } },
    '10.1.0.0/16',
  ],
  'a bound that is narrower now removes too': [
    { node: '10.244.0.0/24', last: 'now 10.0.0.0/8', options: { within: [prefix('10.244.0.0/16')] } },
    'removes-too-much',
  ],
  // The first list
  'the first config file': [{ node: TWO, alone: true }, 'first-list'],
  'the first config file of static ranges': [{ static: RFC_1918, alone: true }, 'first-list'],
  'the first config file with RFC 1918': [
    { node: '100.64.0.0/24', first: RFC_1918, alone: true },
    '10.0.0.0/8 100.64.0.0/24 172.16.0.0/12 192.168.0.0/16',
  ],
  'the first config file, of IPv6 alone': [
    { node: 'fd00::/64', alone: true, options: only('IPv6') },
    'fd00::/64',
  ],
  'not the first list any more': [{ node: TWO, alone: true, last: `now ${TWO}` }, '10.244.0.0/23'],
  // Size
  'as many as fit': [{ node: MANY.slice(1).join(' ') }, MANY.slice(1).join(' ')],
  'a wider range makes it fit': [{ node: MANY.join(' '), static: '10.0.0.0/8' }, '10.0.0.0/8'],
  'what is left of the grace counts': [{ node: MANY.slice(1).join(' '), last: `10 ${MANY[0]}` }, 'too-many'],
};

describe('decide', () => {
  for (const [name, [given, expected]] of Object.entries(ROWS))
    it(name, () =>
      assert.equal(outcome(decide(situationOf(given), { ...OPTIONS, ...given.options })), expected),
    );

  it('accepts the removals that a person has accepted, whatever comes meanwhile', () => {
    const given = { node: '10.244.0.0/24', last: '40 10.244.0.0/22' };
    const message = decide(situationOf(given), OPTIONS).refusal?.message ?? '';
    const accepted = /accept=(\w+)/.exec(message)?.[1] ?? '';
    const rows = [
      [given, '10.244.0.0/24'],
      [{ ...given, node: '10.244.0.0/24 10.9.0.0/24' }, '10.9.0.0/24 10.244.0.0/24'],
      [{ ...given, last: '40 10.244.0.0/21' }, 'removes-too-much'],
    ] as const;
    for (const [now, expected] of rows)
      assert.equal(outcome(decide(situationOf({ ...now, accepted }), OPTIONS)), expected);
    assert.match(
      message,
      /^768 addresses would leave the list at once, more than --most-removed \(50 %\): 10\.244\.1\.0\/24, 10\.244\.2\.0\/23; /,
    );
  });

  it('says of each entry where it is from', () => {
    const decision = decide(
      situationOf({
        declared: '10.1.0.0/16 10.2.0.0/17',
        node: '10.1.3.0/24 10.2.128.0/17 10.3.0.0/24 10.3.1.0/24 10.3.2.0/24 10.3.3.0/24',
        last: '10 10.4.0.0/24, 20 10.4.1.0/24',
      }),
      OPTIONS,
    );
    assert.deepEqual(
      Object.fromEntries(decision.entries.map(({ prefix: { text }, comment }) => [text, comment])),
      {
        '10.1.0.0/16': 'declared 0',
        '10.2.0.0/16': 'Node n1, declared 1',
        '10.3.0.0/22': 'Node n2, Node n3, Node n4 and 1 more',
        '10.4.0.0/23': 'unused since 2026-11-29T11:40:00Z, unused since 2026-11-29T11:50:00Z',
      },
    );
  });

  it('tells what is in use, and since when the rest is not: the latest time, but none in the future', () => {
    const last = '25 10.245.0.0/24, now 10.244.0.0/22, 20 10.245.0.0/24, -600 10.246.0.0/24';
    const { use } = decide(situationOf({ node: TWO, last }), { ...OPTIONS, ...only('IPv4') });
    const rows = use.map(({ at, prefixes }) => [at, prefixes.map(({ text }) => text).join()]);
    assert.deepEqual(rows, [
      ['now', '10.244.0.0/23'],
      [NOW, '10.244.2.0/23'],
      [NOW, '10.246.0.0/24'],
      [NOW - 20 * MINUTE, '10.245.0.0/24'],
    ]);
  });

  it('takes only the first addresses of each Node', () => {
    const addresses = MANY.map((text) => ({ type: 'InternalIP', address: text.replace('/32', '') }));
    const evil = nodeClaims({ metadata: { name: 'evil' }, status: { addresses } });
    const claimed = [...claims('node', '10.244.0.0/24'), ...evil];
    const decision = decide({ ...situationOf({}), claims: claimed }, OPTIONS);
    assert.equal(outcome(decision), `${MANY.slice(0, 8).join(' ')} 10.244.0.0/24 (993)`);
    assert.match(
      rejectedText(decision.rejected[0] ?? assert.fail()),
      /which is beyond the first 8 addresses of its Node;/,
    );
  });

  it('escapes what a range says', () => {
    const claim: Claim = { text: '10.0.0.0/8\u001b', kind: 'node', by: 'Node a' };
    const { rejected } = decide({ ...situationOf({}), claims: [claim] }, OPTIONS);
    assert.match(
      rejectedText(rejected[0] ?? assert.fail()),
      /^Node a has the range "10\.0\.0\.0\/8\\x1b", which contains .*; it is left out$/,
    );
  });
});

describe('decide, whatever is given', () => {
  const cidr = fc
    .tuple(fc.constantFrom(10, 11, 100, 172, 192), fc.nat(255), fc.integer({ min: 6, max: 26 }))
    .map(([first, second, length]) => {
      const address = ((first << 24) | (second << 16)) >>> 0;
      const network = (address & (-1 << (32 - length))) >>> 0;
      return `${[24, 16, 8, 0].map((shift) => (network >>> shift) & 255).join('.')}/${length}`;
    });
  const listed = (kind: Claim['kind']) =>
    fc.array(cidr, { maxLength: 8 }).map((texts) => claims(kind, texts.join(' ')));
  const group = fc.record({
    at: fc.oneof(
      fc.constant('now' as const),
      fc.integer({ min: -60, max: 60 }).map((ago) => NOW - ago * MINUTE),
    ),
    prefixes: fc.array(cidr.map(prefix), { maxLength: 5 }),
  });
  const situation = fc.record({
    claims: fc.tuple(listed('node'), listed('declared'), listed('address')).map((all) => all.flat()),
    last: fc.array(group, { maxLength: 5 }),
    now: fc.constant(NOW),
    hasOtherFiles: fc.boolean(),
    accepted: fc.constant(undefined),
  });
  const isIn = (address: bigint, cidrs: readonly { readonly address: bigint; readonly length: number }[]) =>
    cidrs.some((one) => address >> BigInt(32 - one.length) === one.address >> BigInt(32 - one.length));

  it('misses nothing of the grace, holds nothing unbounded or unknown, and remembers what it lists', () => {
    let lists = 0;
    const options = { ...OPTIONS, mostRemoved: 100 };
    fc.assert(
      fc.property(
        situation,
        fc.array(fc.integer({ min: 0, max: 2 ** 32 - 1 }).map(BigInt)),
        (given, some) => {
          const decision = decide(given, options);
          if (decision.refusal !== undefined) return;
          lists += 1;
          const entries = decision.entries.map((one) => one.prefix);
          const recent = given.last.filter(({ at }) => at === 'now' || NOW - at < options.grace);
          const wanted = [
            ...given.claims
              .map(({ text }) => prefix(text))
              .filter((one) =>
                options.within.some((bound) => bound.length <= one.length && isIn(one.address, [bound])),
              ),
            ...recent.flatMap(({ prefixes }) => prefixes),
          ];
          const edges = [...wanted, ...entries].flatMap(({ address, length }) => [
            address,
            address + (1n << BigInt(32 - length)) - 1n,
            address - 1n,
          ]);
          for (const address of [...edges, ...some].filter((one) => one >= 0n)) {
            const isBounded = isIn(
              address,
              options.within.filter(({ family }) => family === 'IPv4'),
            );
            assert.equal(isIn(address, entries), isBounded && isIn(address, wanted), String(address));
          }
          const remembered = decision.use.flatMap(({ prefixes }) => prefixes);
          for (const { address } of [...entries, ...remembered])
            assert.equal(isIn(address, entries), isIn(address, remembered));
          const again = decide({ ...given, last: decision.use }, options);
          assert.deepEqual(again.entries, decision.entries);
        },
      ),
      { numRuns: 300 },
    );
    assert.ok(lists > 100, `${lists} lists`);
  });
});

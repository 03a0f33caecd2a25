import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import IPCIDR from 'ip-cidr';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Prefix } from '../../../lib/cidr/prefix.ts';
import {
  complement,
  difference,
  everything,
  formatRange,
  intersection,
  isIn,
  isInSome,
  meetsSome,
  nothing,
  parseRange,
  prefixesOf,
  type RangeSet,
  rangeOf,
  rangeSet,
  sameRanges,
  sizeOf,
  union,
} from '../../../lib/cidr/ranges.ts';
import { BITS, crowdedAddress, crowdedPrefix, FAMILIES, holds, prefixOf } from './arbitrary.ts';
import { addressFrom, prefixFrom } from './support.ts';

describe('the shortest list of prefixes of a set', () => {
  for (const [inputs, outputs] of [
    [[], []],
    [['10.0.0.0/8'], ['10.0.0.0/8']],
    [['10.1.0.0/16', '10.0.0.0/16'], ['10.0.0.0/15']],
    [['0.0.0.0/1', '128.0.0.0/1'], ['0.0.0.0/0']],
    [['8000::/1', '::/1'], ['::/0']],
    [['fd00::1/128', 'fd00::/128'], ['fd00::/127']],
    [['10.0.0.0/8', '10.1.2.0/24', '10.1.2.3/32'], ['10.0.0.0/8']],
  ] as const) {
    it(`joins ${inputs.join(', ') || 'nothing'} to ${outputs.join(', ') || 'nothing'}`, () => {
      assert.deepEqual(texts(setOf(inputs[0]?.includes(':') ? 'IPv6' : 'IPv4', inputs)), outputs);
    });
  }

  it('is that of RFC 1918 taken out of everything', () => {
    const inside = setOf('IPv4', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16']);
    const outside = prefixesOf(complement(inside));
    assert.equal(outside[0]?.text, '0.0.0.0/5');
    assert.equal(outside.at(-1)?.text, '224.0.0.0/3');
    assert.equal(outside.length, 31);
  });
});

for (const family of FAMILIES) {
  describe(`sets of ${family} addresses`, () => {
    const prefixes = fc.array(crowdedPrefix(family), { maxLength: 12 });
    const sample = fc.oneof(
      crowdedAddress(family),
      fc.bigInt({ min: 0n, max: 2n ** BigInt(BITS[family]) - 1n }),
    );

    it('hold what the prefixes and the operations on them hold', () => {
      fc.assert(
        fc.property(prefixes, prefixes, fc.array(sample), (left, right, addresses) => {
          const [a, b] = [fromPrefixes(family, left), fromPrefixes(family, right)];
          const edges = [...a.ranges, ...b.ranges].flatMap(({ first, last }) => [first, last]);
          for (const address of [...addresses, ...edges]) {
            assert.equal(isInSome(address, a.ranges), has(a, address));
            const inA = left.some((prefix) => holds(prefix, address));
            const inB = right.some((prefix) => holds(prefix, address));
            assert.equal(has(a, address), inA);
            assert.equal(has(union(a, b), address), inA || inB);
            assert.equal(has(intersection(a, b), address), inA && inB);
            assert.equal(has(difference(a, b), address), inA && !inB);
            assert.equal(has(complement(a), address), !inA);
          }
        }),
      );
    });

    it('have one form only: ascending ranges that neither overlap nor touch', () => {
      fc.assert(
        fc.property(prefixes, prefixes, (left, right) => {
          const [a, b] = [fromPrefixes(family, left), fromPrefixes(family, right)];
          for (const set of [a, union(a, b), intersection(a, b), difference(a, b), complement(a)]) {
            set.ranges.forEach(({ first, last }, index) => {
              assert.ok(first <= last);
              if (index > 0) assert.ok(first > (set.ranges[index - 1]?.last ?? first) + 1n);
            });
          }
          assert.deepEqual(complement(complement(a)), a);
        }),
      );
    });

    it('are written as prefixes that hold exactly the set, and no two of which make one', () => {
      fc.assert(
        fc.property(prefixes, (some) => {
          const set = fromPrefixes(family, some);
          const list = prefixesOf(set);
          assert.deepEqual(fromPrefixes(family, list), set);
          // Prefixes nest or are apart. So the shortest list is that of the blocks which no larger block of the set holds.
          for (const prefix of list) {
            if (prefix.length === 0) continue;
            const wider = rangeOf(prefixOf(family, prefix.address, prefix.length - 1));
            assert.ok(!set.ranges.some(({ first, last }) => first <= wider.first && wider.last <= last));
          }
        }),
      );
    });

    it('are as large as ip-cidr says of their prefixes', () => {
      fc.assert(
        fc.property(prefixes, (list) => {
          const set = fromPrefixes(family, list);
          const size = prefixesOf(set).reduce((sum, { text }) => sum + new IPCIDR(text).size.valueOf(), 0n);
          assert.equal(sizeOf(set.ranges), size);
        }),
      );
    });

    it('meet a range if an address of it is in them', () => {
      fc.assert(
        fc.property(prefixes, sample, sample, (list, one, other) => {
          const { ranges } = fromPrefixes(family, list);
          const range = one < other ? { first: one, last: other } : { first: other, last: one };
          for (const asked of [range, { first: one, last: one }]) {
            const common = intersection(rangeSet(family, [asked]), fromPrefixes(family, list));
            assert.equal(meetsSome(asked, ranges), common.ranges.length > 0);
          }
        }),
      );
    });

    it('lack the highest address if only that is taken out', () => {
      const highest = 2n ** BigInt(BITS[family]) - 1n;
      const others = rangeSet(family, [{ first: 0n, last: highest - 1n }]);
      assert.deepEqual(complement(others).ranges, [{ first: highest, last: highest }]);
    });

    it('may be everything or nothing', () => {
      assert.deepEqual(complement(nothing(family)), everything(family));
      assert.deepEqual(complement(everything(family)), nothing(family));
      assert.deepEqual(texts(everything(family)), [family === 'IPv4' ? '0.0.0.0/0' : '::/0']);
    });
  });
}

describe('a range', () => {
  for (const [text, first, last] of [
    ['10.0.0.7', '10.0.0.7', '10.0.0.7'],
    ['10.0.0.0/8', '10.0.0.0', '10.255.255.255'],
    ['0.0.0.0/0', '0.0.0.0', '255.255.255.255'],
    ['fd00::/8', 'fd00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    // As many addresses as a prefix has, but from elsewhere on; and a number of them that no prefix has.
    ['10.0.0.128-10.0.1.127', '10.0.0.128', '10.0.1.127'],
    ['10.0.0.2-10.0.0.4', '10.0.0.2', '10.0.0.4'],
  ] as const)
    it(`is written as ${text}, and read`, () => {
      const range = { first: addressFrom(first).value, last: addressFrom(last).value };
      assert.equal(formatRange(addressFrom(first).family, range), text);
      assert.deepEqual(parseRange(text), range);
    });

  for (const text of [
    ...['', 'x', '10.0.0.0/', '10.0.0.0/33', '10.0.0.0/8x', '10.0.0.0/x8', '10.0.0.0/0008', 'fd00::/129'],
    ...['10.0.0.1-', '10.0.0.1-x', '10.0.0.1-fd00::1', '10.0.0.1-10.0.0.2-10.0.0.3', '/8', '-10.0.0.1'],
  ])
    it(`is not ${JSON.stringify(text)}`, () => assert.equal(parseRange(text), undefined));

  it('may be a prefix of one address', () =>
    assert.deepEqual(parseRange('10.0.0.7/32'), parseRange('10.0.0.7')));

  it('has both of its ends', () => {
    const held = [4n, 5n, 6n, 7n, 8n].filter((value) => isIn(value, { first: 5n, last: 7n }));
    assert.deepEqual(held, [5n, 6n, 7n]);
  });

  it('is the same if both ends are, in lists that are there', () => {
    const one = { first: 1n, last: 2n };
    for (const [a, b, same] of [
      [undefined, undefined, true],
      [undefined, [], false],
      [[], undefined, false],
      [[], [], true],
      [[one, { first: 5n, last: 6n }], [{ ...one }, { first: 5n, last: 6n }], true],
      [[one], [], false],
      [[], [one], false],
      [[one, one], [one, { ...one, last: 3n }], false],
      [[one], [{ ...one, first: 0n }], false],
    ] as const)
      assert.equal(sameRanges(a, b), same);
  });
});

function has({ ranges }: RangeSet, address: bigint): boolean {
  return ranges.some(({ first, last }) => first <= address && address <= last);
}

function fromPrefixes(family: Family, prefixes: readonly Prefix[]): RangeSet {
  return rangeSet(family, prefixes.map(rangeOf));
}

function setOf(family: Family, cidrs: readonly string[]): RangeSet {
  return fromPrefixes(family, cidrs.map(prefixFrom));
}

function texts(set: RangeSet): readonly string[] {
  return prefixesOf(set).map(({ text }) => text);
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import IPCIDR from 'ip-cidr';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Prefix } from '../../../lib/cidr/prefix.ts';
import {
  complement,
  difference,
  formatRange,
  intersection,
  isInSome,
  meetsSome,
  prefixesOf,
  type RangeSet,
  rangeOf,
  rangeSet,
  sameRanges,
  sizeOf,
  union,
} from '../../../lib/cidr/ranges.ts';
import { BITS, crowdedAddress, crowdedPrefix, FAMILIES, holds, prefixOf } from './arbitrary.ts';
import { addressFrom } from './support.ts';

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

    it('lack the highest address if only that is taken out', () => {
      const highest = 2n ** BigInt(BITS[family]) - 1n;
      const others = rangeSet(family, [{ first: 0n, last: highest - 1n }]);
      assert.deepEqual(complement(others).ranges, [{ first: highest, last: highest }]);
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
    it(`is written as ${text}`, () => {
      const range = { first: addressFrom(first).value, last: addressFrom(last).value };
      assert.equal(formatRange(addressFrom(first).family, range), text);
    });

  it('is in the same lists only if both are there', () => {
    assert.deepEqual([sameRanges(undefined, undefined), sameRanges([], [])], [true, true]);
    assert.deepEqual([sameRanges(undefined, []), sameRanges([], undefined)], [false, false]);
  });
});

function has({ ranges }: RangeSet, address: bigint): boolean {
  return ranges.some(({ first, last }) => first <= address && address <= last);
}

function fromPrefixes(family: Family, prefixes: readonly Prefix[]): RangeSet {
  return rangeSet(family, prefixes.map(rangeOf));
}

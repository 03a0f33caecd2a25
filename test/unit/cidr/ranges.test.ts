import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import IPCIDR from 'ip-cidr';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Prefix } from '../../../lib/cidr/prefix.ts';
import {
  complement,
  difference,
  intersection,
  isInSome,
  prefixesOf,
  type RangeSet,
  rangeOf,
  rangeSet,
  sizeOf,
  union,
} from '../../../lib/cidr/ranges.ts';
import { BITS, crowdedAddress, crowdedPrefix, FAMILIES, holds, prefixOf } from './arbitrary.ts';

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
  });
}

function has({ ranges }: RangeSet, address: bigint): boolean {
  return ranges.some(({ first, last }) => first <= address && address <= last);
}

function fromPrefixes(family: Family, prefixes: readonly Prefix[]): RangeSet {
  return rangeSet(family, prefixes.map(rangeOf));
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import { prefixesOf } from '../../../lib/cidr/ranges.ts';
import { flatten, notMasqueradedDestinations } from '../../../lib/policy/flatten.ts';
import { compilePolicy, decider, type Entry, type Policy } from '../../../lib/policy/policy.ts';
import { borders, crowdedAddress, crowdedPrefix, FAMILIES, holds } from '../cidr/arbitrary.ts';
import { mergedOf } from '../config/support.ts';

describe('a flattened policy', () => {
  const texts = { a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.1.128.0/17]\nmasqueradeCIDRs: [10.1.0.0/16]' };
  const policy = compilePolicy(mergedOf(texts), 'IPv4');

  it('has a segment for each stretch of addresses, with the entry that decides there', () => {
    const segments = flatten(policy).map(({ entry }) => `${entry.prefix.text} ${entry.verdict}`);
    assert.deepEqual(segments, [
      '10.0.0.0/8 not_masqueraded',
      '10.1.0.0/16 masqueraded',
      '10.1.128.0/17 not_masqueraded',
      '10.0.0.0/8 not_masqueraded',
      '169.254.0.0/16 not_masqueraded',
    ]);
  });

  it('is written without exceptions as the shortest list of what is left alone', () => {
    const texts = prefixesOf(notMasqueradedDestinations(policy)).map(({ text }) => text);
    assert.deepEqual(texts, [
      ...['10.0.0.0/16', '10.1.128.0/17', '10.2.0.0/15', '10.4.0.0/14', '10.8.0.0/13', '10.16.0.0/12'],
      ...['10.32.0.0/11', '10.64.0.0/10', '10.128.0.0/9', '169.254.0.0/16'],
    ]);
  });
});

for (const family of FAMILIES) {
  describe(`flattening of random ${family} policies`, () => {
    it('keeps who decides for every address', () => {
      fc.assert(
        fc.property(anyPolicy(family), fc.array(crowdedAddress(family)), (policy, addresses) => {
          const decide = decider(policy);
          const segments = flatten(policy);
          const edges = segments.flatMap(({ first, last }) => [first, last]);
          for (const value of [...addresses, ...edges]) {
            const holding = segments.filter(({ first, last }) => first <= value && value <= last);
            assert.ok(holding.length <= 1);
            assert.equal(holding[0]?.entry, decide({ family, value }));
          }
          segments.forEach(({ first }, index) => {
            if (index > 0) assert.ok(first > (segments[index - 1]?.last ?? first));
          });
        }),
      );
    });

    it('gives a list that decides exactly as the policy does', () => {
      fc.assert(
        fc.property(anyPolicy(family), fc.array(crowdedAddress(family)), (policy, addresses) => {
          const decide = decider(policy);
          const list = prefixesOf(notMasqueradedDestinations(policy));
          const prefixes = [...list, ...policy.entries.map(({ prefix }) => prefix)];
          for (const value of [...addresses, ...borders(family, prefixes)]) {
            const left = list.some((prefix) => holds(prefix, value));
            assert.equal(left, decide({ family, value })?.verdict === 'not_masqueraded');
          }
        }),
      );
    });
  });
}

describe('the list of a flattened policy', () => {
  it('is as short as any that decides the same', () => {
    fc.assert(
      fc.property(fc.array(smallEntry(), { maxLength: 8 }), (entries) => {
        const policy: Policy = { family: 'IPv4', from: [], entries };
        assert.equal(prefixesOf(notMasqueradedDestinations(policy)).length, shortest(policy));
      }),
    );
  });
});

const SMALL_BITS = 4;

/** Entries in a world of 16 addresses, the last ones of IPv4. */
function smallEntry(): fc.Arbitrary<Entry> {
  const base = 2n ** 32n - 2n ** BigInt(SMALL_BITS);
  return fc
    .record({
      address: fc.nat(2 ** SMALL_BITS - 1),
      bits: fc.nat(SMALL_BITS),
      verdict: fc.constantFrom('not_masqueraded' as const, 'masqueraded' as const),
    })
    .map(({ address, bits, verdict }) => {
      const size = 2n ** BigInt(bits);
      const network = base + (BigInt(address) / size) * size;
      return {
        prefix: { family: 'IPv4', address: network, length: 32 - bits, text: `${network}/${32 - bits}` },
        verdict,
        origin: { kind: 'built-in', basis: 'test' },
      };
    });
}

/** The fewest blocks that make up what is left alone, found by trying all ways to cut each block in halves. */
function shortest(policy: Policy): number {
  const decide = decider(policy);
  const cost = (first: bigint, size: bigint): number => {
    const left = Array.from({ length: Number(size) }, (_, index) => {
      const entry = decide({ family: 'IPv4', value: first + BigInt(index) });
      return entry?.verdict === 'not_masqueraded';
    });
    if (!left.includes(true)) return 0;
    if (size === 1n) return 1;
    const halves = cost(first, size / 2n) + cost(first + size / 2n, size / 2n);
    return left.includes(false) ? halves : Math.min(1, halves);
  };
  return cost(2n ** 32n - 2n ** BigInt(SMALL_BITS), 2n ** BigInt(SMALL_BITS));
}

function anyPolicy(family: Family): fc.Arbitrary<Policy> {
  const entry = fc
    .record({
      prefix: crowdedPrefix(family),
      verdict: fc.constantFrom('not_masqueraded' as const, 'masqueraded' as const),
    })
    .map((said): Entry => ({ ...said, origin: { kind: 'built-in', basis: 'test' } }));
  return fc.array(entry, { maxLength: 16 }).map((entries) => ({ family, from: [], entries }));
}

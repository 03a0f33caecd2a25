import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import { isIn, rangeOf } from '../../../lib/cidr/ranges.ts';
import { firstMatches, type RangeRule } from '../../../lib/dataplane/first-match.ts';
import { BITS, crowdedAddress, crowdedPrefix, FAMILIES } from '../cidr/arbitrary.ts';

for (const family of FAMILIES) {
  describe(`the first match of random rules, ${family}`, () => {
    it('is told exactly where all packets to an address get the same verdict', () => {
      fc.assert(
        fc.property(
          fc.array(rule(family), { maxLength: 8 }),
          fc.array(crowdedAddress(family)),
          (some, addresses) => {
            const rules = some.map((one, index) => ({ ...one, text: `rule ${index}` }));
            const { fates } = firstMatches(family, rules);
            const edges = rules.flatMap(({ first, last }) => [first, last]);
            for (const value of [...addresses, ...edges]) {
              const [fate, ...others] = fates.filter((one) => isIn(value, one));
              assert.ok(fate !== undefined && others.length === 0);
              const outcomes = outcomesOf(rules.filter((one) => isIn(value, one)));
              assert.equal(fate.verdict, outcomes.size === 1 ? [...outcomes][0] : undefined);
            }
            assert.equal(fates[0]?.first, 0n);
            assert.equal(fates.at(-1)?.last, 2n ** BigInt(BITS[family]) - 1n);
            fates.forEach(({ first }, index) => {
              if (index > 0) assert.equal(first, (fates[index - 1]?.last ?? first) + 1n);
            });
          },
        ),
      );
    });
  });
}

/** The verdicts of all packets: each may, or may not, have what a rule asks for besides the destination. */
function outcomesOf(rules: readonly RangeRule[]): ReadonlySet<RangeRule['verdict']> {
  const packets = Array.from({ length: 2 ** rules.length }, (_, packet) => packet);
  return new Set(
    packets.map((packet) => {
      const match = rules.find(({ matchesAll }, index) => matchesAll || (packet >> index) % 2 === 1);
      return match === undefined ? 'not_masqueraded' : match.verdict;
    }),
  );
}

function rule(family: Family): fc.Arbitrary<Omit<RangeRule, 'text'>> {
  return fc
    .record({
      prefix: crowdedPrefix(family),
      verdict: fc.constantFrom('not_masqueraded' as const, 'masqueraded' as const, undefined),
      matchesAll: fc.boolean(),
    })
    .map(({ prefix, ...rest }) => ({ ...rangeOf(prefix), ...rest }));
}

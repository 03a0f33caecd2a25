import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import { complement, isIn, isInSome, rangeOf, rangeSet } from '../../../lib/cidr/ranges.ts';
import { firstMatches, type Step } from '../../../lib/dataplane/first-match.ts';
import type { Verdict } from '../../../lib/policy/policy.ts';
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
            const { ranges } = firstMatches(family, rules);
            const edges = rules.flatMap(({ ranges: some }) =>
              some.flatMap(({ first, last }) => [first, last]),
            );
            for (const value of [...addresses, ...edges]) {
              const [match, ...others] = ranges.filter((one) => isIn(value, one));
              assert.ok(match !== undefined && others.length === 0);
              const outcomes = outcomesOf(rules.filter((one) => isInSome(value, one.ranges)));
              assert.equal(match.verdict, outcomes.size === 1 ? [...outcomes][0] : undefined);
            }
            assert.equal(ranges[0]?.first, 0n);
            assert.equal(ranges.at(-1)?.last, 2n ** BigInt(BITS[family]) - 1n);
            ranges.forEach(({ first }, index) => {
              if (index > 0) assert.equal(first, (ranges[index - 1]?.last ?? first) + 1n);
            });
          },
        ),
      );
    });
  });
}

/** The verdicts of all packets: each may, or may not, have what a rule asks for besides the destination. */
function outcomesOf(rules: readonly Step[]): ReadonlySet<Verdict | undefined> {
  const packets = Array.from({ length: 2 ** rules.length }, (_, packet) => packet);
  return new Set(
    packets.map((packet) => {
      const match = rules.find(({ isPartial }, index) => !isPartial || (packet >> index) % 2 === 1);
      return match === undefined ? 'not_masqueraded' : match.verdict;
    }),
  );
}

function rule(family: Family): fc.Arbitrary<Omit<Step, 'text'>> {
  return fc
    .record({
      prefix: crowdedPrefix(family),
      isNegated: fc.boolean(),
      verdict: fc.constantFrom('masqueraded', 'not_masqueraded', undefined),
      isPartial: fc.boolean(),
    })
    .map(({ prefix, isNegated, ...rest }) => {
      const set = rangeSet(family, [rangeOf(prefix)]);
      return { ranges: (isNegated ? complement(set) : set).ranges, ...rest };
    });
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import { complement, isIn, isInSome, rangeOf, rangeSet } from '../../../lib/cidr/ranges.ts';
import { firstMatches } from '../../../lib/dataplane/first-match.ts';
import type { Outcome, Rule } from '../../../lib/dataplane/rule.ts';
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
            const edges = rules.flatMap(({ destinations }) =>
              destinations.ranges.flatMap(({ first, last }) => [first, last]),
            );
            for (const value of [...addresses, ...edges]) {
              const [match, ...others] = ranges.filter((one) => isIn(value, one));
              assert.ok(match !== undefined && others.length === 0);
              const outcomes = outcomesOf(
                rules.filter(({ destinations }) => isInSome(value, destinations.ranges)),
              );
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

/** What each outcome does with packets; undefined if that is neither of both. */
const VERDICTS = new Map<Outcome, Verdict | undefined>([
  [{ kind: 'masquerades' }, 'masqueraded'],
  [{ kind: 'masquerades', to: '192.0.2.0/24' }, undefined],
  [{ kind: 'returns' }, 'not_masqueraded'],
  [{ kind: 'ends' }, 'not_masqueraded'],
  [{ kind: 'else' }, undefined],
  [{ kind: 'jump', chain: 'X' }, undefined],
  [{ kind: 'goes on' }, undefined],
]);

/** The verdicts of all packets: each may, or may not, have what a rule asks for besides the destination. */
function outcomesOf(rules: readonly Rule[]): ReadonlySet<Verdict | undefined> {
  const packets = Array.from({ length: 2 ** rules.length }, (_, packet) => packet);
  const decides = ({ conditions, outcome }: Rule, index: number, packet: number) =>
    outcome.kind !== 'goes on' && (conditions.length === 0 || (packet >> index) % 2 === 1);
  return new Set(
    packets.map((packet) => {
      const match = rules.find((one, index) => decides(one, index, packet));
      return match === undefined ? 'not_masqueraded' : VERDICTS.get(match.outcome);
    }),
  );
}

function rule(family: Family): fc.Arbitrary<Omit<Rule, 'text'>> {
  return fc
    .record({
      prefix: crowdedPrefix(family),
      isNegated: fc.boolean(),
      outcome: fc.constantFrom(...VERDICTS.keys()),
      conditions: fc.constantFrom([], [{ text: 'more', isSteady: true }]),
    })
    .map(({ prefix, isNegated, ...rest }) => {
      const set = rangeSet(family, [rangeOf(prefix)]);
      return { destinations: isNegated ? complement(set) : set, ...rest };
    });
}

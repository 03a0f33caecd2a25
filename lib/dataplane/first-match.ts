import { ADDRESS_BITS, type Family } from '../cidr/address.ts';
import type { Fate, Fates } from '../policy/fates.ts';
import { outcomeText } from '../policy/policy.ts';
import type { Outcome, Rule } from './rule.ts';
import { translatedAddress } from './translation.ts';

/** What becomes of a packet; the verdict is undefined if it is neither masqueraded nor left alone. */
type Effect = Pick<Fate, 'verdict' | 'as'>;

/** A rule that may decide about a packet, and its place among these. */
interface Step {
  readonly index: number;
  readonly rule: Rule;
  readonly effect: Effect;
}

/**
 * What a chain does with packets to every address. The first rule that matches a packet decides; behind the last one,
 * the packet is left alone. If a rule matches only some packets to an address, and the others get another verdict, it
 * cannot be told.
 */
export function firstMatches(family: Family, rules: readonly Rule[]): Fates {
  const steps = rules
    .filter(({ outcome }) => outcome.kind !== 'goes on')
    .map((rule, index): Step => ({ index, rule, effect: effectOf(rule.outcome) }));
  const end = 1n << BigInt(ADDRESS_BITS[family]);
  const edges = new Set([0n, end]);
  for (const { rule } of steps)
    for (const { first, last } of rule.destinations.ranges) edges.add(first).add(last + 1n);
  const starts = [...edges].sort((a, b) => (a < b ? -1 : 1));
  const places = new Map(starts.map((start, index) => [start, index]));
  /** The index of the first of some steps for each of the stretches; the number of all steps if none. */
  const firstOf = (some: readonly Step[]): Int32Array => {
    const found = new Int32Array(starts.length).fill(steps.length);
    // From the last rule to the first, which overwrites what those behind it say.
    for (const { index, rule } of some.toReversed())
      for (const { first, last } of rule.destinations.ranges)
        found.fill(index, places.get(first), places.get(last + 1n));
    return found;
  };

  const isDecisive = ({ rule, effect }: Step) => rule.conditions.length === 0 && effect.verdict !== undefined;
  const decisive = firstOf(steps.filter(isDecisive));
  const others = Map.groupBy(
    steps.filter((step) => !isDecisive(step)),
    ({ effect }) => keyOf(effect),
  );
  const doubtful = Array.from(others, ([key, some]) => ({ key, first: firstOf(some) }));
  const fates = starts.slice(0, -1).map((first, index): Fate => {
    const range = { first, last: (starts[index + 1] ?? end) - 1n };
    const decides = decisive[index] ?? steps.length;
    const { rule, effect = LEFT_ALONE } = steps[decides] ?? {};
    const doubts = doubtful
      .filter(({ key }) => key !== keyOf(effect))
      .map((one) => one.first[index] ?? steps.length);
    const doubt = Math.min(...doubts);
    if (doubt < decides) return { ...range, verdict: undefined, rule: steps[doubt]?.rule.text };
    return { ...range, ...effect, rule: rule?.text };
  });
  return { family, fates };
}

const LEFT_ALONE: Effect = { verdict: 'not_masqueraded' };

function effectOf(outcome: Outcome): Effect {
  switch (outcome.kind) {
    case 'ends':
    case 'returns':
      return LEFT_ALONE;
    case 'masquerades': {
      if (outcome.to === undefined) return { verdict: 'masqueraded' };
      const as = translatedAddress(outcome.to);
      return { verdict: as === undefined ? undefined : 'masqueraded', as };
    }
    // Behind the jump, packets are masqueraded or not.
    case 'own':
      return { verdict: 'masqueraded' };
    default:
      return { verdict: undefined };
  }
}

function keyOf({ verdict, as }: Effect): string {
  return verdict === undefined ? '' : outcomeText(verdict, as);
}

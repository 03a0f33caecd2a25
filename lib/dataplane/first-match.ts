import { ADDRESS_BITS, type Family } from '../cidr/address.ts';
import type { Fate, Fates } from '../policy/fates.ts';
import { outcomeText } from '../policy/policy.ts';
import type { Outcome, Rule } from './rule.ts';
import { translatedAddress } from './translation.ts';

/**
 * What a chain does with packets to every address. The first rule that matches a packet decides; behind the last one,
 * the packet is left alone. If a rule matches only some packets to an address, and the others get another verdict, it
 * cannot be told.
 */
export function firstMatches(family: Family, all: readonly Rule[]): Fates {
  const rules = all
    .filter(({ outcome }) => outcome.kind !== 'goes on')
    .map((rule) => ({ ...rule, effect: effectOf(rule.outcome) }));
  const end = 1n << BigInt(ADDRESS_BITS[family]);
  const edges = rules.flatMap(({ destinations }) =>
    destinations.ranges.flatMap(({ first, last }) => [first, last + 1n]),
  );
  const starts = [...new Set([0n, ...edges.filter((edge) => edge < end)])].sort((a, b) => (a < b ? -1 : 1));
  const places = new Map(starts.map((start, index) => [start, index]));
  /** The index of the first rule, among those that are meant, for each of the stretches; the number of rules if none. */
  const firstOf = (isMeant: (rule: (typeof rules)[number]) => boolean): Int32Array => {
    const found = new Int32Array(starts.length).fill(rules.length);
    // From the last rule to the first, which overwrites what those behind it say.
    for (const [index, rule] of [...rules.entries()].reverse())
      for (const { first, last } of isMeant(rule) ? rule.destinations.ranges : [])
        found.fill(index, places.get(first), places.get(last + 1n));
    return found;
  };

  const isDecisive = ({ conditions, effect }: (typeof rules)[number]) =>
    conditions.length === 0 && effect.verdict !== undefined;
  const decisive = firstOf(isDecisive);
  const effects = new Set(rules.filter((rule) => !isDecisive(rule)).map(({ effect }) => keyOf(effect)));
  const doubtful = Array.from(effects, (key) => ({
    key,
    first: firstOf((rule) => !isDecisive(rule) && keyOf(rule.effect) === key),
  }));
  const fates = starts.map((first, index): Fate => {
    const range = { first, last: (starts[index + 1] ?? end) - 1n };
    const decides = decisive[index] ?? rules.length;
    const { text, effect = LEFT_ALONE } = rules[decides] ?? {};
    const doubts = doubtful
      .filter(({ key }) => key !== keyOf(effect))
      .map((one) => one.first[index] ?? rules.length);
    const doubt = Math.min(...doubts);
    if (doubt < decides) return { ...range, verdict: undefined, rule: rules[doubt]?.text };
    return { ...range, ...effect, rule: text };
  });
  return { family, fates };
}

/** What becomes of a packet; without a verdict if that is something else than to be masqueraded or left alone. */
type Effect = Pick<Fate, 'verdict' | 'as'>;

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

import { ADDRESS_BITS, type Family } from '../cidr/address.ts';
import { outcomeText } from '../policy/policy.ts';
import type { VerdictRange, Verdicts } from '../policy/verdicts.ts';
import { partitionPoint } from '../text/partition-point.ts';
import type { Outcome, Rule } from './rule.ts';
import { translatedAddress } from './translation.ts';

/** What becomes of a packet; the verdict is undefined if it is neither masqueraded nor left alone. */
type Effect = Pick<VerdictRange, 'verdict' | 'as'>;

/**
 * What a chain does with packets to every address. The first rule that matches a packet decides; behind the last one,
 * the packet is left alone. If a rule matches only some packets to an address, and the others get another verdict, it
 * cannot be told.
 */
export function firstMatches(family: Family, rules: readonly Rule[]): Verdicts {
  const steps = rules.filter(({ outcome }) => outcome.kind !== 'goes on' || outcome.isGuess);
  const effects = steps.map(({ outcome }) => effectOf(outcome));
  const end = 1n << BigInt(ADDRESS_BITS[family]);
  const edges = [0n, end];
  for (const { destinations } of steps)
    for (const { first, last } of destinations.ranges) edges.push(first, last + 1n);
  // No Set or Map: V8 hashes the lowest 64 bits of a bigint alone.
  const starts = edges
    .sort((a, b) => Number(a > b) - Number(a < b))
    .filter((edge, index) => edge !== edges[index - 1]);
  const indexOf = (start: bigint) => partitionPoint(starts, (other) => other < start);
  /** For each stretch of addresses, the index of the first rule that is meant; the number of rules if there is none. */
  const firstOf = (isMeant: (index: number) => boolean): Int32Array => {
    const found = new Int32Array(starts.length).fill(steps.length);
    // From the last rule to the first, which overwrites what those behind it say.
    for (let index = steps.length - 1; index >= 0; index -= 1)
      for (const { first, last } of (isMeant(index) && steps[index]?.destinations.ranges) || [])
        found.fill(index, indexOf(first), indexOf(last + 1n));
    return found;
  };

  // What a rule that is not decisive does; undefined for one that is.
  const doubts = steps.map(({ conditions }, index) => {
    const effect = effects[index] ?? LEFT_ALONE;
    return conditions.length === 0 && effect.verdict !== undefined ? undefined : keyOf(effect);
  });
  const decisive = firstOf((index) => doubts[index] === undefined);
  const doubtful = [...new Set(doubts)]
    .filter((key) => key !== undefined)
    .map((key) => ({ key, first: firstOf((index) => doubts[index] === key) }));
  const ranges = starts.slice(0, -1).map((first, index): VerdictRange => {
    const range = { first, last: (starts[index + 1] ?? end) - 1n };
    const decides = decisive[index] ?? steps.length;
    const effect = effects[decides] ?? LEFT_ALONE;
    const others = doubtful.filter(({ key }) => key !== keyOf(effect));
    const doubt = Math.min(...others.map((one) => one.first[index] ?? steps.length));
    if (doubt < decides) return { ...range, verdict: undefined, kernelRule: steps[doubt]?.text };
    return { ...range, ...effect, kernelRule: steps[decides]?.text };
  });
  return { family, ranges };
}

const LEFT_ALONE: Effect = { verdict: 'not_masqueraded' };
const MASQUERADED: Effect = { verdict: 'masqueraded' };

function effectOf(outcome: Outcome): Effect {
  switch (outcome.kind) {
    case 'ends':
    case 'returns':
      return LEFT_ALONE;
    case 'masquerades': {
      if (outcome.to === undefined) return MASQUERADED;
      const as = translatedAddress(outcome.to);
      return { verdict: as === undefined ? undefined : 'masqueraded', as };
    }
    // Behind the jump, packets are masqueraded or not.
    case 'own':
      return MASQUERADED;
    default:
      return { verdict: undefined };
  }
}

function keyOf({ verdict, as }: Effect): string {
  return verdict === undefined ? '' : outcomeText(verdict, as);
}

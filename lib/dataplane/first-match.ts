import { ADDRESS_BITS, type Family } from '../cidr/address.ts';
import type { Range } from '../cidr/ranges.ts';
import type { Fate, Fates } from '../policy/fates.ts';
import { outcomeText, type Verdict } from '../policy/policy.ts';

/** A rule in the kernel, as far as it concerns packets to consecutive addresses. */
export interface RangeRule extends Range {
  /** Undefined if the rule does something else than to return or to masquerade. */
  readonly verdict: Verdict | undefined;
  /** The address that packets leave with; undefined if the kernel chooses it. */
  readonly as?: string | undefined;
  /** Whether it matches all packets to these addresses; otherwise it asks for more than the destination. */
  readonly matchesAll: boolean;
  /** The rule as the tool prints it. */
  readonly text: string;
}

/**
 * What a chain does with packets to every address. The first rule that matches a packet decides; behind the last one,
 * the packet is left alone. If a rule matches only some packets to an address, and the others get another verdict, it
 * cannot be told.
 */
export function firstMatches(family: Family, rules: readonly RangeRule[]): Fates {
  const end = 1n << BigInt(ADDRESS_BITS[family]);
  const edges = rules.flatMap(({ first, last }) => [first, last + 1n]).filter((edge) => edge < end);
  const starts = [...new Set([0n, ...edges])].sort((a, b) => (a < b ? -1 : 1));
  const places = new Map(starts.map((start, index) => [start, index]));
  const firstOf = (isMeant: (rule: RangeRule) => boolean) => firstRules(rules, isMeant, starts, places);

  const isDecisive = (rule: RangeRule) => rule.matchesAll && rule.verdict !== undefined;
  const decisive = firstOf(isDecisive);
  const outcomes = new Set(rules.filter((rule) => !isDecisive(rule)).map(outcomeOf));
  const doubtful = Array.from(outcomes, (outcome) => ({
    outcome,
    first: firstOf((rule) => !isDecisive(rule) && outcomeOf(rule) === outcome),
  }));
  const fates = starts.map((first, index): Fate => {
    const range = { first, last: (starts[index + 1] ?? end) - 1n };
    const decides = decisive[index] ?? rules.length;
    const { verdict = 'not_masqueraded', as } = rules[decides] ?? {};
    const doubts = doubtful
      .filter((one) => one.outcome !== outcomeOf({ verdict, as }))
      .map((one) => one.first[index] ?? rules.length);
    const doubt = Math.min(...doubts);
    if (doubt < decides) return { ...range, verdict: undefined, rule: rules[doubt]?.text };
    return { ...range, verdict, as, rule: rules[decides]?.text };
  });
  return { family, fates };
}

function outcomeOf({ verdict, as }: Pick<RangeRule, 'verdict' | 'as'>): string {
  return verdict === undefined ? '' : outcomeText(verdict, as);
}

/** The index of the first rule, among those that are meant, for each of the stretches; the number of rules if none. */
function firstRules(
  rules: readonly RangeRule[],
  isMeant: (rule: RangeRule) => boolean,
  starts: readonly bigint[],
  places: ReadonlyMap<bigint, number>,
): Int32Array {
  const found = new Int32Array(starts.length).fill(rules.length);
  // From the last rule to the first, which overwrites what those behind it say.
  for (const [index, rule] of [...rules.entries()].reverse())
    if (isMeant(rule)) found.fill(index, places.get(rule.first), places.get(rule.last + 1n));
  return found;
}

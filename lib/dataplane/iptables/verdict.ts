import type { Family } from '../../cidr/address.ts';
import { complement, everything, parseRange, type Range } from '../../cidr/ranges.ts';
import { type Fate, type Fates, sameFate, sideBySide } from '../../policy/fates.ts';
import type { Verdict } from '../../policy/policy.ts';
import type { KernelFates } from '../dataplane.ts';
import { firstMatches, type RangeRule } from '../first-match.ts';
import type { IptablesObservation } from './observe.ts';
import { ruleWords } from './rule.ts';

/** What the chain does with packets to every address: the agent's own chain, or one that ip-masq-agent v1 or v2 made. */
export function kernelFates({ family, rules, jumps }: IptablesObservation, chain: string): KernelFates {
  if (jumps.length === 0)
    return {
      state: rules === undefined ? 'no chain' : 'no jump',
      ...sameFate(family, { verdict: 'return' }),
    };
  const entered = firstMatches(
    family,
    jumps.flatMap((spec) => rangeRules(family, spec, `-A POSTROUTING ${spec}`, chain)),
  );
  const inside =
    rules === undefined
      ? sameFate(family, { verdict: undefined, rule: `chain ${chain}, which iptables cannot list` })
      : firstMatches(
          family,
          rules.flatMap((spec) => rangeRules(family, spec, `-A ${chain} ${spec}`, 'MASQUERADE')),
        );
  return { state: 'applied', ...ifEntered(entered, inside) };
}

/** The fates inside the chain for the packets that enter it; all others are left alone. */
function ifEntered(entered: Fates, inside: Fates): Fates {
  const fates = Array.from(sideBySide(entered, inside), ({ first, last, before, after }): Fate => {
    if (before.verdict === 'masquerade' || after.verdict === 'return') return { ...after, first, last };
    return { first, last, verdict: before.verdict, rule: before.rule };
  });
  return { family: entered.family, fates };
}

/**
 * A rule as far as it concerns destinations. What iptables prints before the first `-m` is in a fixed order, with the
 * destination among it.
 *
 * @param masquerades the target that masquerades, or leads to where packets are masqueraded
 */
function rangeRules(family: Family, spec: string, text: string, masquerades: string): readonly RangeRule[] {
  const words = withoutLocal(withoutComments(ruleWords(spec)));
  const end = words.findIndex((word) => word === '-j' || word === '-g');
  if (end === -1) return []; // it only counts
  const matches = words.slice(0, end);
  const options = matches.indexOf('-m');
  const at = matches.slice(0, options === -1 ? end : options).indexOf('-d');
  const range = at === -1 ? undefined : parseRange(matches[at + 1] ?? '');
  const isNegated = matches[at - 1] === '!';
  const others = matches.length - (range === undefined ? 0 : isNegated ? 3 : 2);
  const verdict = verdictOf(words[end], words[end + 1], masquerades);
  return destinations(family, range, isNegated).map((destination) => ({
    ...destination,
    verdict,
    matchesAll: others === 0,
    text,
  }));
}

/** The addresses that the rule may match. */
function destinations(family: Family, range: Range | undefined, isNegated: boolean): readonly Range[] {
  if (range === undefined) return everything(family).ranges;
  return isNegated ? complement({ family, ranges: [range] }).ranges : [range];
}

function verdictOf(
  jump: string | undefined,
  target: string | undefined,
  masquerades: string,
): Verdict | undefined {
  if (target === masquerades) return 'masquerade';
  return jump === '-j' && (target === 'RETURN' || target === 'ACCEPT') ? 'return' : undefined;
}

const NOT_LOCAL = ['-m', 'addrtype', '!', '--dst-type', 'LOCAL'];

/**
 * Without the match that every jump to such a chain has, and that every rule of old v1 versions has: packets to the
 * node itself are none of the agent's business.
 */
function withoutLocal(words: readonly string[]): readonly string[] {
  const at = words.findIndex((_, index) => NOT_LOCAL.every((word, offset) => words[index + offset] === word));
  return at === -1 ? words : words.toSpliced(at, NOT_LOCAL.length);
}

function withoutComments(words: readonly string[]): readonly string[] {
  const at = words.findIndex((word, index) => word === '-m' && words[index + 1] === 'comment');
  return at === -1 ? words : withoutComments(words.toSpliced(at, 4));
}

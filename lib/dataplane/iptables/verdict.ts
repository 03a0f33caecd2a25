import type { Family } from '../../cidr/address.ts';
import { complement, everything, parseRange, type Range } from '../../cidr/ranges.ts';
import { type Fate, type Fates, sameFate, sideBySide } from '../../policy/fates.ts';
import type { Verdict } from '../../policy/policy.ts';
import type { KernelFates } from '../dataplane.ts';
import { firstMatches, type RangeRule } from '../first-match.ts';
import type { IptablesObservation } from './observe.ts';
import { ruleWords } from './rule.ts';

/** What the chain does with packets to every address: the agent's own chain, or one that ip-masq-agent v1 or v2 made. */
export function kernelFates(
  { family, rules, jumps, unseen }: IptablesObservation,
  chain: string,
): KernelFates {
  if (jumps.length === 0 && unseen === undefined)
    return {
      state: rules === undefined ? 'no chain' : 'no jump',
      ...sameFate(family, { verdict: 'return' }),
    };
  const seen = unseen === 'instead' ? [] : jumps;
  const entered = firstMatches(family, [
    ...seen.flatMap((spec) => rangeRules(family, spec, `-A POSTROUTING ${spec}`, chain)),
    ...(unseen === undefined ? [] : rangeRules(family, `-m unseen -j ${chain}`, unseenText(chain), chain)),
  ]);
  const inside =
    rules === undefined
      ? sameFate(family, { verdict: undefined, rule: `chain ${chain}, which iptables cannot list` })
      : firstMatches(
          family,
          rules.flatMap((spec) => rangeRules(family, spec, `-A ${chain} ${spec}`, 'MASQUERADE')),
        );
  return { state: 'applied', ...ifEntered(entered, inside) };
}

/** Stands for ways to the chain that only some packets may take. */
function unseenText(chain: string): string {
  return `rules in other chains, or rules that iptables cannot read, may lead to ${chain}`;
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
  const written = withoutComments(ruleWords(spec));
  if (indexOf(written, LOCAL) !== -1) return [];
  const notLocal = indexOf(written, NOT_LOCAL);
  const words = notLocal === -1 ? written : written.toSpliced(notLocal, NOT_LOCAL.length);
  const end = words.findIndex((word) => word === '-j' || word === '-g');
  if (end === -1 || PASSING.includes(words[end + 1] ?? '')) return [];
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

/** Targets behind which a packet goes on to the next rule. */
const PASSING = ['CONNMARK', 'LOG', 'MARK', 'NFLOG', 'TRACE'];

/** Packets to the node itself are none of the agent's business. */
const LOCAL = ['-m', 'addrtype', '--dst-type', 'LOCAL'];
/** Every jump to such a chain has this match, and so has every rule of old v1 versions. */
const NOT_LOCAL = ['-m', 'addrtype', '!', '--dst-type', 'LOCAL'];

function indexOf(words: readonly string[], part: readonly string[]): number {
  return words.findIndex((_, index) => part.every((word, offset) => words[index + offset] === word));
}

function withoutComments(words: readonly string[]): readonly string[] {
  const at = words.findIndex((word, index) => word === '-m' && words[index + 1] === 'comment');
  return at === -1 ? words : withoutComments(words.toSpliced(at, 4));
}

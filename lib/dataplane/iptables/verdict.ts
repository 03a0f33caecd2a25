import type { Family } from '../../cidr/address.ts';
import { complement, everything, parseRange, type Range, rangeSet } from '../../cidr/ranges.ts';
import { type Fate, type Fates, sameFate, sideBySide } from '../../policy/fates.ts';
import type { KernelFates } from '../dataplane.ts';
import { firstMatches, type RangeRule } from '../first-match.ts';
import { translatedAddress } from '../translation.ts';
import { secondChain } from './chain.ts';
import type { IptablesObservation } from './observe.ts';
import { type KernelRule, ruleWords } from './rule.ts';

/** What the chain does with packets to every address: the agent's own chain, or one that ip-masq-agent v1 or v2 made. */
export function kernelFates(
  { family, rules, jumps, unseen }: IptablesObservation,
  chain: string,
): KernelFates {
  if (jumps.length === 0 && unseen === undefined)
    return {
      state: rules === undefined ? 'no chain' : 'no jump',
      ...sameFate(family, { verdict: 'not_masqueraded' }),
    };
  const seen = unseen === 'instead' ? [] : jumps;
  const entered = firstMatches(family, [
    ...seen.flatMap((spec) => rangeRules(family, spec, `-A POSTROUTING ${spec}`, chain)),
    ...(unseen === undefined ? [] : rangeRules(family, `-m unseen -j ${chain}`, unseenText(chain), chain)),
  ]);
  const inside =
    rules === undefined
      ? sameFate(family, { verdict: undefined, rule: `chain ${chain}, which iptables cannot list` })
      : insideFates(family, rules, chain);
  return { state: 'applied', ...ifEntered(entered, inside) };
}

/** What the rules do with the packets that enter the first chain. */
function insideFates(family: Family, rules: readonly KernelRule[], chain: string): Fates {
  const firstOf = (some: readonly KernelRule[]) =>
    firstMatches(
      family,
      some.flatMap((rule) => rangeRules(family, rule.spec, `-A ${rule.chain} ${rule.spec}`, 'MASQUERADE')),
    );
  const second = rules.filter((rule) => rule.chain !== chain);
  if (second.length === 0) return firstOf(rules);
  const first = rules.filter((rule) => rule.chain === chain);
  const sources = first.map(({ spec }) => sourceOf(family, spec, secondChain(chain)));
  // Behind a rule that ends the chain, others mean nothing.
  const odd = first.find(
    (_, index) => !sources[index] || (sources[index]?.length === 0) !== (index === first.length - 1),
  );
  if (odd !== undefined) return sameFate(family, { verdict: undefined, rule: `-A ${chain} ${odd.spec}` });
  const from = rangeSet(
    family,
    sources.flatMap((ranges) => ranges ?? []),
  );
  return { ...firstOf(second), from };
}

/**
 * Where packets come from that the rule of the first chain lets go on in the second one; none for the last rule. Undefined
 * for a rule of another kind.
 */
function sourceOf(family: Family, spec: string, second: string): readonly Range[] | undefined {
  const [option, ...words] = withoutComments(ruleWords(spec));
  if (option === '-j') return words.join() === 'RETURN' ? [] : undefined;
  if (option === '-g') return words.join() === second ? everything(family).ranges : undefined;
  const [text = '', jump, target, ...more] = words;
  const range = parseRange(text);
  if (option !== '-s' || range === undefined || more.length > 0) return undefined;
  return jump === '-g' && target === second ? [range] : undefined;
}

/** Stands for ways to the chain that only some packets may take. */
function unseenText(chain: string): string {
  return `rules in other chains, or rules that iptables cannot read, may lead to ${chain}`;
}

/** The fates inside the chain for the packets that enter it; all others are left alone. */
function ifEntered(entered: Fates, inside: Fates): Fates {
  const fates = Array.from(sideBySide(entered, inside), ({ first, last, before, after }): Fate => {
    if (before.verdict === 'masqueraded' || after.verdict === 'not_masqueraded')
      return { ...after, first, last };
    return { first, last, verdict: before.verdict, rule: before.rule };
  });
  return { family: entered.family, from: inside.from, fates };
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
  const outcome = outcomeOf(words.slice(end), masquerades);
  return destinations(family, range, isNegated).map((destination) => ({
    ...destination,
    ...outcome,
    matchesAll: others === 0,
    text,
  }));
}

/** The addresses that the rule may match. */
function destinations(family: Family, range: Range | undefined, isNegated: boolean): readonly Range[] {
  if (range === undefined) return everything(family).ranges;
  return isNegated ? complement({ family, ranges: [range] }).ranges : [range];
}

function outcomeOf(
  [jump, target, option, value = '']: readonly string[],
  masquerades: string,
): Pick<RangeRule, 'verdict' | 'as'> {
  if (target === masquerades) return { verdict: 'masqueraded' };
  if (jump === '-j' && target === 'SNAT' && option === '--to-source') {
    const as = translatedAddress(value);
    return { verdict: as === undefined ? undefined : 'masqueraded', as };
  }
  const returns = jump === '-j' && (target === 'RETURN' || target === 'ACCEPT');
  return { verdict: returns ? 'not_masqueraded' : undefined };
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

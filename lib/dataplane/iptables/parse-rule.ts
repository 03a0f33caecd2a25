import type { Family } from '../../cidr/address.ts';
import { complement, nothing, parseRange, type RangeSet, rangeSet } from '../../cidr/ranges.ts';
import { type Outcome, type Rule, ruleOf, type Test } from '../rule.ts';
import { ruleWords } from './rule.ts';

/** An option with its values, such as `! --dst-type LOCAL`. */
interface Option {
  readonly negated: boolean;
  readonly name: string;
  readonly values: readonly string[];
}

const DROPPING = /^(DROP|QUEUE|NFQUEUE|REJECT)$/;
/** Targets to which an option says what packets leave with. */
const TRANSLATING = /^(SNAT|NETMAP|SAME)$/;
/** Targets that may stand without options, as jumps to chains do. */
const GOING_ON = /^(MARK|CONNMARK|LOG|NFLOG|ULOG|TRACE|CT|CHECKSUM|CLASSIFY|AUDIT|DSCP)$/;

/** Matches that say nothing by themselves: comments, and protocols, which `-p` has named before. */
const SILENT_MATCHES = /^(comment|tcp|udp|udplite|sctp|dccp|icmp|icmp6|ipv6-icmp)$/;

/** Options that ask a packet for what it is. */
const SHORT_OPTIONS: Readonly<Record<string, string>> = {
  '-s': 'source',
  '-i': 'input interface',
  '-o': 'output interface',
  '-p': 'protocol',
  '-f': 'fragment',
};

/**
 * A rule as `iptables -S` prints it.
 *
 * @param spec what stands behind `-A CHAIN`
 * @param ownChain the agent's own chain
 */
export function parseIptablesRule(family: Family, chain: string, spec: string, ownChain: string): Rule {
  const options = optionsOf(ruleWords(spec));
  const target = options.findIndex(({ name }) => name === '-j' || name === '-g');
  const matches = target === -1 ? options : options.slice(0, target);
  const outcome: Outcome = target === -1 ? { kind: 'goes on' } : outcomeOf(options.slice(target), ownChain);
  return ruleOf(family, `-A ${chain} ${spec}`.trimEnd(), testsOf(family, matches), outcome);
}

function optionsOf(words: readonly string[]): readonly Option[] {
  const options: Option[] = [];
  for (let index = 0; index < words.length; ) {
    const negated = words[index] === '!';
    if (negated) index += 1;
    const name = words[index] ?? '';
    const start = index + 1;
    index = start;
    // A comment is one word, whatever it looks like.
    if (name === '--comment') index += 1;
    else while (index < words.length && !isOption(words[index] ?? '')) index += 1;
    options.push({ negated, name, values: words.slice(start, index) });
  }
  return options;
}

/** In brackets stands what `iptablesRule` has no words for. */
function isOption(word: string): boolean {
  return word === '!' || /^--?[a-z]/i.test(word) || isUnknown(word);
}

/** Not an address of IPv6 in brackets. */
function isUnknown(word: string): boolean {
  return /^\[\w+\]?$/.test(word);
}

function testsOf(family: Family, options: readonly Option[]): readonly Test[] {
  const tests: Test[] = [];
  let match = '';
  for (const [index, option] of options.entries()) {
    if (option.name === '-m') {
      match = option.values[0] ?? '';
      const bare = !options[index + 1]?.name.startsWith('--');
      if (bare && !SILENT_MATCHES.test(match)) tests.push({ text: match });
    } else tests.push(testOf(family, match, option));
  }
  return tests;
}

function testOf(family: Family, match: string, { negated, name, values }: Option): Test {
  const value = values.join(' ');
  const not = negated ? 'not ' : '';
  if (isUnknown(name)) return { text: `${name} ${value}`.trimEnd() };
  if (name === '-d') {
    const set = addresses(family, negated, value);
    return set ?? { text: `destination ${not}${value}` };
  }
  if (name === '--comment' || name === '-c') return undefined;
  // Policies are only about destinations that are not local.
  if (name === '--dst-type' && value === 'LOCAL') return negated ? undefined : nothing(family);
  if (name === '--limit-iface-out' || name === '--limit-iface-in') return undefined;
  const short = SHORT_OPTIONS[name];
  const what = short ?? `${match} ${name.replace(/^-+/, '')}`.trim();
  return {
    text: `${what} ${not}${value}`.trimEnd(),
    sources: name === '-s' ? addresses(family, negated, value) : undefined,
  };
}

/** The addresses that a prefix asks for; undefined for a mask with holes. */
function addresses(family: Family, negated: boolean, text: string): RangeSet | undefined {
  const range = parseRange(text);
  const set = range && rangeSet(family, [range]);
  return set && negated ? complement(set) : set;
}

function outcomeOf([target, ...more]: readonly Option[], ownChain: string): Outcome {
  const name = target?.values[0] ?? '';
  if (name === ownChain) return { kind: 'own' };
  if (target?.name === '-g') return { kind: 'goto', chain: name };
  if (name === 'MASQUERADE') return { kind: 'masquerades' };
  if (TRANSLATING.test(name)) return { kind: 'masquerades', to: more[0]?.values.join() ?? '' };
  if (name === 'ACCEPT') return { kind: 'ends' };
  if (DROPPING.test(name)) return { kind: 'else' };
  if (name === 'RETURN') return { kind: 'returns' };
  if (GOING_ON.test(name)) return { kind: 'goes on' };
  // A jump to a chain has no options.
  if (more.length > 0) return { kind: 'goes on', isGuess: true };
  return { kind: 'jump', chain: name };
}

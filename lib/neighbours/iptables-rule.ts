import type { Family } from '../cidr/address.ts';
import { parsePrefix } from '../cidr/prefix.ts';
import { complement, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { ruleWords } from '../dataplane/iptables/rule.ts';
import type { Outcome, Rule } from './base-chain.ts';
import { ALWAYS, combine, markTest, NEVER, otherCondition, steadyCondition, type Test } from './condition.ts';

/** An option with its values, such as `! --dst-type LOCAL`. */
interface Option {
  readonly negated: boolean;
  readonly name: string;
  readonly values: readonly string[];
}

const MASQUERADING = ['MASQUERADE', 'SNAT', 'NETMAP', 'SAME'];
const ENDING = ['ACCEPT', 'DROP', 'QUEUE', 'NFQUEUE', 'REJECT'];
const CHANGING = ['MARK', 'CONNMARK'];
/** Targets that can have no options, like a jump to a chain. */
const GOING_ON = ['LOG', 'NFLOG', 'ULOG', 'TRACE', 'NOTRACK', 'CT', 'CHECKSUM', 'CLASSIFY', 'AUDIT', 'DSCP'];

/** Matches without a condition of their own: comments, and protocols, which `-p` names already. */
const SILENT_MATCHES = ['comment', 'tcp', 'udp', 'udplite', 'sctp', 'dccp', 'icmp', 'icmp6', 'ipv6-icmp'];

/** Matches about the packet itself, whose options are independent. Not addrtype, whose options change each other. */
const STEADY_MATCHES = [...SILENT_MATCHES, 'multiport', 'iprange'];

const SHORT_OPTIONS: Readonly<Record<string, string>> = {
  '-s': 'source',
  '-i': 'input interface',
  '-o': 'output interface',
  '-p': 'protocol',
  '-f': 'fragment',
};

/**
 * Reads a rule that `iptables -S` prints.
 *
 * @param spec the words after `-A CHAIN`
 * @param ownChain the agent's chain
 */
export function parseIptablesRule(family: Family, chain: string, spec: string, ownChain: string): Rule {
  const options = optionsOf(ruleWords(spec));
  const target = options.findIndex(({ name }) => name === '-j' || name === '-g');
  const matches = target === -1 ? options : options.slice(0, target);
  return {
    text: `-A ${chain} ${spec}`.trimEnd(),
    ...combine(family, testsOf(family, matches)),
    outcome: target === -1 ? { kind: 'goes on' } : outcomeOf(options.slice(target), ownChain),
  };
}

function optionsOf(words: readonly string[]): readonly Option[] {
  const options: Option[] = [];
  for (let index = 0; index < words.length; ) {
    const negated = words[index] === '!';
    if (negated) index += 1;
    const name = words[index] ?? '';
    const start = index + 1;
    index = start;
    // A comment is one word, also if it looks like an option.
    if (name === '--comment') index += 1;
    else while (index < words.length && !isOption(words[index] ?? '')) index += 1;
    options.push({ negated, name, values: words.slice(start, index) });
  }
  return options;
}

function isOption(word: string): boolean {
  return word === '!' || /^--?[a-z]/i.test(word);
}

function testsOf(family: Family, options: readonly Option[]): readonly Test[] {
  const tests: Test[] = [];
  let match = '';
  for (const [index, option] of options.entries()) {
    if (option.name === '-m') {
      match = option.values[0] ?? '';
      const bare = !options[index + 1]?.name.startsWith('--');
      if (bare && !SILENT_MATCHES.includes(match)) tests.push(otherCondition(match));
    } else tests.push(testOf(family, match, option));
  }
  return tests;
}

function testOf(family: Family, match: string, option: Option): Test {
  const { negated, name, values } = option;
  const value = values.join(' ');
  if (name === '-d') return destinationTest(family, value, negated);
  if (name === '--comment' || name === '-c') return ALWAYS;
  // The policy is only about destinations that are not local.
  if (name === '--dst-type' && value === 'LOCAL') return negated ? ALWAYS : NEVER;
  if (name === '--limit-iface-out' || name === '--limit-iface-in') return ALWAYS;
  if (match === 'mark' && name === '--mark') {
    const [mark, mask = 0xffffffff] = value.split('/').map(Number);
    if (mark !== undefined && Number.isInteger(mark) && Number.isInteger(mask)) {
      return markTest(mark, mask, !negated);
    }
  }
  const short = SHORT_OPTIONS[name];
  const what = short ?? `${match} ${name.replace(/^-+/, '')}`.trim();
  const text = `${what} ${negated ? 'not ' : ''}${value}`.trimEnd();
  const isSteady = short !== undefined || STEADY_MATCHES.includes(match);
  return isSteady ? steadyCondition(text) : otherCondition(text);
}

function destinationTest(family: Family, value: string, negated: boolean): Test {
  const parsed = parsePrefix(value);
  // A mask with gaps is not a prefix.
  if (!('prefix' in parsed) || parsed.prefix.family !== family) {
    return steadyCondition(`destination ${negated ? 'not ' : ''}${value}`);
  }
  const set = rangeSet(family, [rangeOf(parsed.prefix)]);
  return { kind: 'destinations', set: negated ? complement(set) : set };
}

function outcomeOf([target, ...more]: readonly Option[], ownChain: string): Outcome {
  const name = target?.values[0] ?? '';
  if (name === ownChain) return { kind: 'own' };
  if (target?.name === '-g') return { kind: 'goto', chain: name };
  if (MASQUERADING.includes(name)) return { kind: 'masquerades' };
  if (ENDING.includes(name)) return { kind: 'ends' };
  if (name === 'RETURN') return { kind: 'returns' };
  if (CHANGING.includes(name)) return { kind: 'changes' };
  // A jump to a chain has no options.
  if (more.length > 0 || GOING_ON.includes(name)) return { kind: 'goes on' };
  return { kind: 'jump', chain: name };
}

import type { Family } from '../../cidr/address.ts';
import {
  complement,
  everything,
  nothing,
  parseRange,
  type Range,
  type RangeSet,
  rangeSet,
} from '../../cidr/ranges.ts';
import { sameVerdict } from '../../policy/verdicts.ts';
import type { KernelVerdicts } from '../dataplane.ts';
import { firstMatches } from '../first-match.ts';
import { type Condition, type Outcome, type Rule, ruleOf, type Test } from '../rule.ts';
import { CATCH_ALL, CHAIN, FROM_SET, INVALID_CHAIN, INVALID_MATCH, NFT_FAMILY, SET } from './names.ts';
import { chainName, isOwn, type NftChain, type NftTable } from './objects.ts';

export function kernelVerdicts(family: Family, table: NftTable | undefined): KernelVerdicts {
  const leftAlone = sameVerdict(family, { verdict: 'not_masqueraded' });
  if (table === undefined || !isOwn(table)) return { state: 'no chain', ...leftAlone };
  const entered = table.chains.filter(({ properties }) => properties.some((line) => ANY_HOOK.test(line)));
  const hooked = entered.filter((chain) => !isOfInvalid(chain));
  const isNamed = (chain: NftChain) => chainName(chain) === CHAIN;
  const own = hooked.find(isNamed) ?? hooked[0];
  if (own === undefined && !table.chains.some(isNamed)) return { state: 'no chain', ...leftAlone };
  if (own === undefined || table.properties.some((line) => DORMANT.test(line)))
    return { state: 'no jump', ...leftAlone };
  const foreign = hooked.filter((chain) => chain !== own);
  const hooks = [
    ...foreign.flatMap(({ properties }) => properties.filter((line) => ANY_HOOK.test(line))),
    ...own.properties.filter((line) => ANY_HOOK.test(line) && !HOOK.test(line)),
  ];
  const start = `${NFT_FAMILY[family].protocol} ${chainName(own)}: `;
  // Another chain that packets enter, or another hook, may do anything.
  const rules = [...hooks, ...own.rules.map(({ text }) => text)]
    .flatMap((line) => readLine(family, line, start, table))
    .filter(({ destinations }) => destinations.ranges.length > 0);
  // What comes from elsewhere is left alone first.
  const elsewhere = rules[0]?.outcome.kind === 'returns' ? rules[0].conditions[0]?.sources : undefined;
  const behind = elsewhere === undefined ? rules : rules.slice(1);
  const from = elsewhere && complement(elsewhere);
  return { state: 'applied', ...firstMatches(family, behind), from, invalid: invalidIn(entered) };
}

/** Whether a chain decides about packets of no connection alone. */
function isOfInvalid({ properties, rules }: NftChain): boolean {
  return (
    properties.some((line) => FILTER_HOOK.test(line)) &&
    rules.every(({ text }) => text.startsWith(INVALID_MATCH))
  );
}

function invalidIn(chains: readonly NftChain[]): KernelVerdicts['invalid'] {
  const [rule] = chains.find((chain) => chainName(chain) === INVALID_CHAIN)?.rules ?? [];
  if (rule === undefined) return undefined;
  return rule.text.includes(' counter drop ') ? 'dropped' : 'counted';
}

/** The line of a chain that packets enter; into all other chains, only jumps lead. */
const ANY_HOOK = /^type \w+ hook /;
const FILTER_HOOK = /^type filter hook postrouting priority [^;]+; policy accept;$/;
const HOOK = /^type nat hook postrouting priority [^;]+; policy accept;$/;

/** The flags of a table whose chains no packet enters. */
const DORMANT = /^flags (?:\w+,)*dormant\b/;

/** The verdict at the end of a rule, behind what the rule asks for. */
const VERDICT =
  /^(.*?)(?:^| )(return|accept|masquerade(?= to :|$| )|snat(?= to ))(?: to ([\d.:[\]a-f-]+))?(?: (?:fully-)?random)?$/;

function outcomeOf(word: string | undefined, to: string | undefined): Outcome {
  if (word === 'masquerade') return { kind: 'masquerades' };
  if (word === 'snat') return { kind: 'masquerades', to: to ?? '' };
  if (word === undefined || to !== undefined) return { kind: 'else' };
  return { kind: word === 'accept' ? 'ends' : 'returns' };
}

/** Statements at the end of a rule, without their texts in quotes, behind which a packet goes on. */
const PASSING = new RegExp(
  `(?:(?:^| )(?:${[
    'counter(?: name "")?',
    'log(?: (?:prefix|group|level|snaplen|queue-threshold|flags) \\S+)*',
    '(?:meta|ct) mark set (?:(?:ct|meta) )?\\S+',
    'meta nftrace set \\d',
    'continue',
  ].join('|')}))+$`,
);

/** What may do more than to match, in front of such a statement; nft(8) takes no verdict there. */
const MORE = /\b(?:vmap|set|add|update|dup|fwd|xt|tproxy|synproxy)\b/;

/** A rule of a chain: one for each element of the set, if it asks for the set. */
function readLine(family: Family, line: string, start: string, table: NftTable): readonly Rule[] {
  const written = line.replace(/ ?comment "[^"]*"$/, '').replace(/"[^"]*"/g, '""');
  const [, before, word, to] = VERDICT.exec(written) ?? [];
  const asked = (before ?? written).replace(PASSING, '');
  const goesOn = word === undefined && asked !== written && !MORE.test(asked);
  const outcome: Outcome = goesOn ? { kind: 'goes on' } : outcomeOf(word, to);
  const text = `${start}${line}`;
  if (word === undefined) return [ruleOf(family, text, [conditionOf(asked)], outcome)];
  const [, own, others] = OWN_SET.exec(asked) ?? [];
  const more = others === undefined ? undefined : conditionOf(others);
  if (own === undefined) return [ruleOf(family, text, testsOf(family, asked, table), outcome)];
  const conditions = more === undefined ? [] : [more];
  return Array.from(table.elements.keys(), (name): Rule => {
    const elementText = `${text}, element ${name}`;
    const range = rangeOf(family, name);
    if (range === undefined) return ruleOf(family, elementText, [conditionOf(name), more], outcome);
    // As `ruleOf` makes it, which takes long for many elements.
    return { text: elementText, destinations: { family, ranges: [range] }, conditions, outcome };
  });
}

const OWN_SET = new RegExp(`^ip6? daddr (@${SET})( .*)?$`);
const DESTINATION = /^ip6? daddr (!= )?(?:\{ ([^{}]+) \}|(\S+))( .*)?$/;
const ELSEWHERE = new RegExp(`^ip6? saddr != @${FROM_SET}$`);

function testsOf(family: Family, asked: string, { sets, elements }: NftTable): readonly Test[] {
  if (asked === '') return [];
  // Packets to the node itself are none of the agent's business.
  if (asked === 'fib daddr type local') return [nothing(family)];
  if (ELSEWHERE.test(asked)) {
    const from = addressesOf(family, sets.find(({ head }) => head === `set ${FROM_SET}`)?.elements ?? ['']);
    return [{ ...conditionOf(asked), sources: from && complement(from) }];
  }
  const [, not, list, single = '', others] = DESTINATION.exec(asked) ?? [];
  const names = single === `@${SET}` ? [...elements.keys()] : (list?.split(', ') ?? [single]);
  const set = addressesOf(family, names);
  if (set === undefined) return [conditionOf(asked)];
  return [not === undefined ? set : complement(set), others === undefined ? undefined : conditionOf(others)];
}

function conditionOf(text: string): Condition {
  return { text, isSteady: false };
}

/** The addresses of elements; undefined if one of them is anything else. */
function addressesOf(family: Family, names: readonly string[]): RangeSet | undefined {
  const ranges = names.map((name) => rangeOf(family, name));
  return ranges.every((range) => range !== undefined) ? rangeSet(family, ranges) : undefined;
}

function rangeOf(family: Family, name: string): Range | undefined {
  return name === CATCH_ALL ? everything(family).ranges[0] : parseRange(name);
}

import type { Family } from '../../cidr/address.ts';
import { complement, everything, nothing, parseRange, type RangeSet, rangeSet } from '../../cidr/ranges.ts';
import { sameFate } from '../../policy/fates.ts';
import type { KernelFates } from '../dataplane.ts';
import { firstMatches } from '../first-match.ts';
import { type Condition, type Outcome, type Rule, ruleOf, type Test } from '../rule.ts';
import { CATCH_ALL, CHAIN, FROM_SET, NFT_FAMILY, SET } from './names.ts';
import type { NftablesObservation, TableContent } from './observe.ts';

/** What the table does with packets to every address. */
export function kernelFates({ family, table }: NftablesObservation): KernelFates {
  const leftAlone = sameFate(family, { verdict: 'not_masqueraded' });
  if (table?.isOwn !== true) return { state: 'no chain', ...leftAlone };
  const chains = chainsOf(table.shape);
  const hooked = chains.filter((lines) => lines.some((line) => ANY_HOOK.test(line)));
  const own = hooked.find(isNamed) ?? hooked[0];
  if (own === undefined && !chains.some(isNamed)) return { state: 'no chain', ...leftAlone };
  if (own === undefined || table.shape.some((line) => DORMANT.test(line)))
    return { state: 'no jump', ...leftAlone };
  const [head = '', ...inside] = own;
  const lines = [
    // Another chain that packets enter may do anything.
    ...hooked.flatMap((one) => (one === own ? [] : one.filter((line) => ANY_HOOK.test(line)))),
    ...inside.filter((line) => !HOOK.test(line) && !line.startsWith('comment "')),
  ];
  const start = `${NFT_FAMILY[family].protocol} ${head.split(' ')[1]}: `;
  const rules = lines
    .flatMap((line) => readLine(family, line, start, table))
    .filter(({ destinations }) => destinations.ranges.length > 0);
  // What comes from elsewhere is left alone first.
  const elsewhere = rules[0]?.outcome.kind === 'returns' ? rules[0].conditions[0]?.sources : undefined;
  const behind = elsewhere === undefined ? rules : rules.slice(1);
  return { state: 'applied', ...firstMatches(family, behind), from: elsewhere && complement(elsewhere) };
}

/** The lines of each chain, from the one with its name. nft(8) lists chains last. */
function chainsOf(shape: readonly string[]): readonly (readonly string[])[] {
  const starts = shape.flatMap((line, index) => (line.startsWith('chain ') ? [index] : []));
  return starts.map((start, index) => shape.slice(start, starts[index + 1]).slice(0, -1));
}

function isNamed([head]: readonly string[]): boolean {
  return head === `chain ${CHAIN} {`;
}

/** The line of a chain that packets enter; into all other chains, only jumps lead. */
const ANY_HOOK = /^type \w+ hook /;
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
function readLine(family: Family, line: string, start: string, table: TableContent): readonly Rule[] {
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
  return Array.from(table.elements.keys(), (name) => {
    const element = addressesOf(family, [name]) ?? conditionOf(name);
    return ruleOf(family, `${text}, element ${name}`, [element, more], outcome);
  });
}

const OWN_SET = new RegExp(`^ip6? daddr (@${SET})( .*)?$`);
const DESTINATION = /^ip6? daddr (!= )?(?:\{ ([^{}]+) \}|(\S+))( .*)?$/;
const ELSEWHERE = new RegExp(`^ip6? saddr != @${FROM_SET}$`);

/** What a rule asks for, in front of its verdict. */
function testsOf(family: Family, asked: string, { shape, elements }: TableContent): readonly Test[] {
  if (asked === '') return [];
  // Packets to the node itself are none of the agent's business.
  if (asked === 'fib daddr type local') return [nothing(family)];
  if (ELSEWHERE.test(asked)) {
    const from = addressesOf(family, fromElements(shape));
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
  const ranges = names.map((name) => (name === CATCH_ALL ? everything(family).ranges[0] : parseRange(name)));
  return ranges.every((range) => range !== undefined) ? rangeSet(family, ranges) : undefined;
}

/** The elements of the set of sources; an empty text if they are not known. */
function fromElements(shape: readonly string[]): readonly string[] {
  const set = shape.slice(shape.indexOf(`set ${FROM_SET} {`));
  const [, list = ''] = /^elements = \{ (.*) \}$/.exec(set.slice(0, set.indexOf('}')).at(-1) ?? '') ?? [];
  return list.split(', ');
}

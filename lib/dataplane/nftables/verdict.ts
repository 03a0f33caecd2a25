import type { Family } from '../../cidr/address.ts';
import { complement, everything, parseRange, type RangeSet, rangeSet } from '../../cidr/ranges.ts';
import { sameFate } from '../../policy/fates.ts';
import type { KernelFates } from '../dataplane.ts';
import { firstMatches, type RangeRule } from '../first-match.ts';
import { translatedAddress } from '../translation.ts';
import { CATCH_ALL, CHAIN, FROM_SET, NFT_FAMILY, SET } from './names.ts';
import { isOwn, type NftChain, type NftTable } from './objects.ts';
import { fromRule } from './table.ts';

/** What the table does with packets to every address. */
export function kernelFates(family: Family, table: NftTable | undefined): KernelFates {
  const nothing = sameFate(family, { verdict: 'not_masqueraded' });
  if (table === undefined || !isOwn(table)) return { state: 'no chain', ...nothing };
  const hooked = table.chains.filter(({ properties }) => properties.some((line) => ANY_HOOK.test(line)));
  const own = hooked.find(isNamed) ?? hooked[0];
  if (own === undefined && !table.chains.some(isNamed)) return { state: 'no chain', ...nothing };
  if (own === undefined || table.properties.some((line) => DORMANT.test(line)))
    return { state: 'no jump', ...nothing };
  const lines = [
    // Another chain that packets enter, or another hook, may do anything.
    ...hooked.flatMap(({ properties }) =>
      properties.filter((line) => ANY_HOOK.test(line) && !HOOK.test(line)),
    ),
    ...own.rules.map(({ text }) => text),
  ];
  const from =
    lines.find((line) => !LOCAL.test(line)) === fromRule(family) ? fromRanges(family, table) : undefined;
  const start = `${NFT_FAMILY[family].protocol} ${own.head.split(' ')[1]}: `;
  const rules = lines
    .filter((line) => from === undefined || line !== fromRule(family))
    .flatMap((line) => rangeRules(family, line, start, table));
  return { state: 'applied', ...firstMatches(family, rules), from };
}

/** Where packets must come from; undefined if that cannot be told. */
function fromRanges(family: Family, table: NftTable): RangeSet | undefined {
  const names = table.sets.find(({ head }) => head === `set ${FROM_SET}`)?.elements ?? [];
  const ranges = names.flatMap((name) => parseRange(name) ?? []);
  return ranges.length > 0 && ranges.length === names.length ? rangeSet(family, ranges) : undefined;
}

function isNamed({ head }: NftChain): boolean {
  return head === `chain ${CHAIN}`;
}

/** Packets to the node itself are none of the agent's business. */
const LOCAL = /^fib daddr type local (?:return|accept)\b/;

/** The line of a chain that packets enter; into all other chains, only jumps lead. */
const ANY_HOOK = /^type \w+ hook /;
const HOOK = /^type nat hook postrouting priority [^;]+; policy accept;$/;

/** The flags of a table whose chains no packet enters. */
const DORMANT = /^flags (?:\w+,)*dormant\b/;

/** The verdict at the end of a rule, behind what the rule asks for. */
const VERDICT =
  /^(.*?)(?:^| )(return|accept|masquerade(?= to :|$| )|snat(?= to ))(?: to ([\d.:[\]a-f-]+))?(?: (?:fully-)?random)?$/;

function outcomeOf(word: string | undefined, target: string | undefined): Pick<RangeRule, 'verdict' | 'as'> {
  if (word === undefined) return { verdict: undefined };
  if (word === 'masquerade') return { verdict: 'masqueraded' };
  if (word !== 'snat') return { verdict: target === undefined ? 'not_masqueraded' : undefined };
  const as = target === undefined ? undefined : translatedAddress(target);
  return { verdict: as === undefined ? undefined : 'masqueraded', as };
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

/** A rule as far as it concerns destinations: one for each element of the set, if it asks for the set. */
function rangeRules(
  family: Family,
  line: string,
  start: string,
  { sets, elements }: NftTable,
): readonly RangeRule[] {
  const rule = line.replace(/ ?comment "[^"]*"$/, '').replace(/"[^"]*"/g, '""');
  const [, before, word, target] = VERDICT.exec(rule) ?? [];
  const condition = (before ?? rule).replace(PASSING, '');
  // Packets to the node itself are none of the agent's business.
  if (condition === 'fib daddr type local' && word !== undefined) return [];
  if (word === undefined && condition !== rule && !MORE.test(condition)) return [];
  const outcome = outcomeOf(word, target);
  const text = `${start}${line}`;
  const [, not, list, single = '', others] = destinationPattern(family).exec(condition) ?? [];
  const isSet = single === `@${SET}` && sets.some(({ head }) => head === `set ${SET}`);
  const names = isSet ? [...elements.keys()] : (list?.split(', ') ?? [single]);
  const ranges = names.flatMap((name) =>
    name === CATCH_ALL ? everything(family).ranges : (parseRange(name) ?? []),
  );
  const isDestination = word !== undefined && ranges.length === names.length;
  const concerned = not === undefined ? ranges : complement(rangeSet(family, ranges)).ranges;
  return (isDestination ? concerned : everything(family).ranges).map((range, index) => ({
    ...range,
    ...outcome,
    matchesAll: (isDestination && others === undefined) || condition === '',
    text: isSet && not === undefined ? `${text}, element ${names[index]}` : text,
  }));
}

function destinationPattern(family: Family): RegExp {
  return new RegExp(`^${NFT_FAMILY[family].protocol} daddr (!= )?(?:\\{ ([^{}]+) \\}|(\\S+))( .*)?$`);
}

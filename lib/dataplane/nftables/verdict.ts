import type { Family } from '../../cidr/address.ts';
import { everything, parseRange } from '../../cidr/ranges.ts';
import { sameFate } from '../../policy/fates.ts';
import type { Verdict } from '../../policy/policy.ts';
import type { KernelFates } from '../dataplane.ts';
import { firstMatches, type RangeRule } from '../first-match.ts';
import { CHAIN, NFT_FAMILY, SET } from './names.ts';
import type { NftablesObservation } from './observe.ts';

/** What the table does with packets to every address. */
export function kernelFates({ family, table }: NftablesObservation): KernelFates {
  const nothing = sameFate(family, { verdict: 'return' });
  const start = table?.shape.indexOf(`chain ${CHAIN} {`) ?? -1;
  if (table?.isOwn !== true || start === -1) return { state: 'no chain', ...nothing };
  const end = table.shape.indexOf('}', start);
  const lines = table.shape.slice(start + 1, end);
  if (!lines.some((line) => HOOK.test(line))) return { state: 'no jump', ...nothing };
  const rules = [
    ...strangeBlocks(table.shape),
    ...lines.filter((line) => !HOOK.test(line) && !isComment(line)),
  ];
  const elements = [...table.elements.keys()];
  return {
    state: 'applied',
    ...firstMatches(
      family,
      rules.flatMap((line) => rangeRules(family, line, elements)),
    ),
  };
}

const HOOK = /^type nat hook postrouting priority [^;]+; policy accept;$/;

/** The verdict at the end of a rule, behind what the rule asks for. */
const VERDICT =
  /^(.*?)(?:^| )(?:counter )?(return|accept|masquerade)((?: to :[\d-]+)?(?: (?:fully-)?random)?)$/;

const VERDICTS: Readonly<Record<string, Verdict>> = {
  return: 'return',
  accept: 'return',
  masquerade: 'masquerade',
};

/** A rule as far as it concerns destinations: one for each element of the set, if it asks for the set. */
function rangeRules(family: Family, line: string, elements: readonly string[]): readonly RangeRule[] {
  const { protocol } = NFT_FAMILY[family];
  const rule = line.replace(/ comment "[^"]*"$/, '');
  // Packets to the node itself are none of the agent's business.
  if (rule === 'fib daddr type local return') return [];
  const [, condition, word] = VERDICT.exec(rule) ?? [];
  const verdict = word === undefined ? undefined : VERDICTS[word];
  const text = `${protocol} ${CHAIN}: ${line}`;
  const anything = everything(family).ranges;
  const [, destination] = new RegExp(`^${protocol} daddr (\\S+)$`).exec(condition ?? '') ?? [];
  if (destination === undefined)
    return anything.map((range) => ({ ...range, verdict, matchesAll: condition === '', text }));
  const isSet = destination === `@${SET}`;
  return (isSet ? elements : [destination]).flatMap((name) => {
    const range = parseRange(name);
    const said = {
      verdict,
      matchesAll: range !== undefined,
      text: isSet ? `${text}, element ${name}` : text,
    };
    return (range === undefined ? anything : [range]).map(({ first, last }) => ({ first, last, ...said }));
  });
}

/** What is in the table besides the set and the chain: it may do anything. */
function strangeBlocks(shape: readonly string[]): readonly string[] {
  const own = [`set ${SET} {`, `chain ${CHAIN} {`];
  return shape.filter((line) => line.endsWith('{') && !own.includes(line));
}

function isComment(line: string): boolean {
  return line.startsWith('comment "');
}

import type { Family } from '../../cidr/address.ts';
import { formatRange } from '../../cidr/ranges.ts';
import { addElements, type Change, nameOf } from '../../netlink/change.ts';
import { printable } from '../../text/escape.ts';
import { truncatedText } from '../../text/words.ts';
import { TABLE, tableName } from './names.ts';
import { ruleText } from './ruleset.ts';
import type { MeantChain, MeantSet, PolicyTable } from './table.ts';

/** Changes that nf_tables carries out together, those of rules with their text. */
export type Transaction = readonly (Change & { readonly text?: string })[];

/** The agent's table of a family. */
export const place = (family: Family) => ({ family, table: TABLE });

/** The table with its sets and their elements, through which no packet goes yet. */
export function addTable({ family, comment, sets }: PolicyTable): Transaction {
  return [{ kind: 'add table', ...place(family), comment }, ...addSets(family, sets)];
}

export function addSets(family: Family, sets: readonly MeantSet[]): Transaction {
  return sets.flatMap(({ name, comment, properties, ranges }) => {
    const set = { ...place(family), set: name };
    const counts = properties.includes('counter');
    return [{ kind: 'add set', ...set, counts, comment }, ...addElements(set, ranges)];
  });
}

export function addChain(family: Family, { name, hook, comment }: MeantChain): Change {
  return { kind: 'add chain', ...place(family), chain: name, hook, comment };
}

export function addRules(family: Family, { name, rules }: MeantChain): Transaction {
  return rules.map((rule) => {
    const { expressions, comment } = rule;
    return { kind: 'add rule', ...place(family), chain: name, expressions, comment, text: ruleText(rule) };
  });
}

/** Elements of one message: nobody reads 100,000, and writing them as text costs memory. */
const MOST_SHOWN = 10;

/** What is done, much as nft(8) would be told: a blank line ends a transaction. */
export function scriptOf(transactions: readonly Transaction[]): string {
  return transactions.map((changes) => changes.map((one) => `${textOf(one)}\n`).join('')).join('\n');
}

function textOf(change: Transaction[number]): string {
  const { family, kind } = change;
  const text = printable([kind, tableName(family), nameOf(change) ?? ''].join(' ').trimEnd());
  if (kind === 'add elements')
    return `${text} { ${truncatedText(change.ranges, MOST_SHOWN, (one) => formatRange(family, one))} }`;
  return change.text === undefined ? text : `${text} ${change.text}`;
}

import type { Family } from '../../cidr/address.ts';
import { addElements, type Change } from '../../netlink/change.ts';
import { TABLE } from './names.ts';
import type { MeantChain, MeantSet, PolicyTable } from './table.ts';

/** Changes that nf_tables carries out together. */
export type Transaction = readonly Change[];

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
  return rules.map(({ expressions, comment }) => {
    return { kind: 'add rule', ...place(family), chain: name, expressions, comment };
  });
}

import { isDeepStrictEqual } from 'node:util';
import type { Range } from '../../cidr/ranges.ts';
import { COMMENT_START } from '../dataplane.ts';
import { SET } from './names.ts';

/**
 * The agent's table, or another one of its name, as nft(8) lists it: every text is a line of the listing, without
 * indentation and counts.
 *
 * @typeParam Value what belongs to an element
 */
export interface NftTable<Value = unknown> {
  /** Its comment and flags. */
  readonly properties: readonly string[];
  /** Sets and all other objects but chains, which nft(8) lists last. */
  readonly sets: readonly NftSet[];
  /** In the order of their names: that of the kernel is the one in which they were made. */
  readonly chains: readonly NftChain[];
  /** The elements of the set of destinations: prefixes, addresses or ranges, or `*` for all other addresses. */
  readonly elements: ReadonlyMap<string, Value>;
  /** The addresses of each element, in the same order, which ascends; undefined if they are not known. */
  readonly ranges?: readonly Range[] | undefined;
}

interface NftObject {
  /** Kind and name, such as `chain postrouting`. */
  readonly head: string;
  /** Type, flags, hook and comment. */
  readonly properties: readonly string[];
}

export interface NftSet extends NftObject {
  /** Absent if it holds none, and of the set of destinations. */
  readonly elements?: readonly string[];
}

export interface NftChain extends NftObject {
  readonly rules: readonly NftRule[];
}

export interface NftRule {
  readonly text: string;
  /** How many it has counted since it was made; absent if it does not count, or nobody has asked. */
  readonly packets?: bigint;
}

/** The lines of a table without the elements of the set of destinations. */
export function tableLines({ properties, sets, chains }: Omit<NftTable, 'elements'>): readonly string[] {
  return [...properties, ...sets.flatMap((set) => blockOf(set)), ...chains.flatMap(chainLines)];
}

export function chainLines(chain: NftChain): readonly string[] {
  return blockOf(
    chain,
    chain.rules.map(({ text }) => text),
  );
}

function blockOf(
  { head, properties, elements }: NftSet,
  more: readonly string[] = elements === undefined ? [] : [elementsLine(elements)],
): readonly string[] {
  return [`${head} {`, ...properties, ...more, '}'];
}

/** The lines of the table with all elements. */
export function wholeTable(table: NftTable): readonly string[] {
  const names = [...table.elements.keys()];
  const filled = table.sets.map((set) =>
    set.head === `set ${SET}` && names.length > 0 ? { ...set, elements: names } : set,
  );
  return tableLines({ ...table, sets: filled });
}

/** The objects of a table in one line each, for people: a set or chain with its properties, each rule, each element. */
export function objectLines(table: NftTable): readonly string[] {
  const inOneLine = (set: NftSet) => {
    const [head = '', ...lines] = blockOf(set).slice(0, -1);
    return `${head.slice(0, -2)} ${lines.map((line) => line.replace(/;$/, '')).join('; ')}`;
  };
  return [
    ...table.properties.map((line) => `table ${line}`),
    ...table.sets.map(inOneLine),
    ...table.chains.flatMap((chain) => [inOneLine(chain), ...chain.rules.map(({ text }) => `rule ${text}`)]),
  ];
}

export function elementsLine(elements: readonly string[]): string {
  return `elements = { ${elements.join(', ')} }`;
}

export function chainName({ head }: NftChain): string {
  return head.replace('chain ', '');
}

/** Whether a comment in the table begins as the agent's comments do; otherwise another program has made it. */
export function isOwn(table: NftTable): boolean {
  return tableLines(table).some((line) => line.includes(`comment "${COMMENT_START}`));
}

/** Whether two tables differ in nothing but counts. */
export function isSameTable(a: NftTable | undefined, b: NftTable | undefined): boolean {
  const parts = (table: NftTable | undefined) => table && [tableLines(table), [...table.elements.keys()]];
  return isDeepStrictEqual(parts(a), parts(b));
}

/** The lines of a listing as a table, without the elements of the set of destinations. */
export function readLines(
  lines: readonly string[],
  readRule: (line: string) => NftRule,
): Omit<NftTable, 'elements'> {
  const properties: string[] = [];
  const sets: NftSet[] = [];
  const chains: NftChain[] = [];
  let rest = lines;
  while (rest.length > 0) {
    const [line = ''] = rest;
    const block = line.endsWith(' {') ? rest.slice(1, endOfBlock(rest)) : undefined;
    rest = rest.slice(block === undefined ? 1 : block.length + 2);
    const head = line.slice(0, -2);
    if (block === undefined) properties.push(line);
    else if (head.startsWith('chain ')) {
      const isProperty = (one: string) => /^(?:comment|type) /.test(one);
      const rules = block.filter((one) => !isProperty(one)).map(readRule);
      chains.push({ head, properties: block.filter(isProperty), rules });
    } else {
      const list = block.map((one) => ELEMENTS.exec(one)?.[1]).find((one) => one !== undefined);
      const own = block.filter((one) => !ELEMENTS.test(one));
      sets.push({ head, properties: own, ...(list !== undefined && { elements: list.split(', ') }) });
    }
  }
  return { properties, sets, chains: chains.toSorted((a, b) => (a.head < b.head ? -1 : 1)) };
}

const ELEMENTS = /^elements = \{ (.*) \}$/;

/** The index of the line that closes the block which the first line opens. A rule of a chain may hold a chain. */
function endOfBlock(lines: readonly string[]): number {
  let depth = 0;
  const end = lines.findIndex((line) => {
    depth += line.endsWith('{') ? 1 : line === '}' ? -1 : 0;
    return depth === 0;
  });
  return end === -1 ? lines.length : end;
}

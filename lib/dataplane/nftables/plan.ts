import { parseRange, type Range } from '../../cidr/ranges.ts';
import type { Family, Policy } from '../../policy/policy.ts';
import type { Difference, Draft, Plan, PlannedRule } from '../dataplane.ts';
import { COMMENT_START } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Remade } from '../memory.ts';
import type { RuleOptions } from '../options.ts';
import { CATCH_ALL, CHAIN, FROM_SET, NFT_FAMILY, SET, TABLE } from './names.ts';
import type { NftablesObservation, TableContent } from './observe.ts';
import {
  type NftablesTable,
  renderChainTransaction,
  renderFromSetTransaction,
  renderTable,
  renderTransaction,
  sectionsOf,
} from './table.ts';

/** A plan, and how it is carried out. */
export interface TablePlan extends Writing {
  readonly draft: Draft;
}

/** How the table is written. */
interface Writing {
  /** What nft reads first, in a transaction of its own that changes no verdict; empty if nothing. */
  readonly preparation: string;
  readonly script: string;
  /** The same over netlink; undefined if more than elements is written, or netlink does not work. */
  readonly elements: ElementChange | undefined;
  readonly remade: Remade;
}

/** A change of the set alone. */
export interface ElementChange {
  readonly remove: readonly Range[];
  readonly add: readonly Range[];
}

/**
 * The limit for single deletions by nft: the number of deletions times the elements of the set. In nft 1.0.6 each
 * deletion takes some 2 µs for every element of the set: 100 of 50,000 take 18 s, but the whole table takes 1 s.
 */
const MOST_DELETING = 100_000;

/** How a change may be made. */
interface WritingOptions {
  /** Whether elements can be changed over netlink. */
  readonly overNetlink: boolean;
  /** Whether the whole table is written, whatever differs. */
  readonly whole: boolean;
}

/**
 * Plans the change to exactly the policy; undefined if nothing differs. If only elements differ, only these are written, and
 * the others keep their counts, unless nft would have to delete too many. If the set of destinations is as it should be, the
 * chain is written again. Otherwise the whole table is.
 *
 * @throws {DataplaneError} if another program has made a table with the same name
 */
export function planTable(
  { family, table }: NftablesObservation,
  policy: Policy,
  options: RuleOptions,
  how: WritingOptions,
): TablePlan | undefined {
  if (table?.isOwn === false) throw foreignTable(family);
  const wanted = renderTable(policy, options);
  const { missing, extra } = differingElements(table, wanted);
  const rest = planRest(family, table?.shape ?? [], wanted.shape);
  if (rest === NOTHING && missing.length + extra.length === 0) return undefined;
  const elementsDiffer = missing.length + extra.length > 0 || rest?.onlyElements === true;
  const writing =
    how.whole || table === undefined || rest === undefined
      ? undefined
      : writeSingly(family, table, { missing, extra, rest, wanted }, how.overNetlink);
  const { script, remade } = writing ?? { script: renderTransaction(family, wanted), remade: 'all' };
  const draft: Draft = {
    family,
    found: differences(table, rest === NOTHING || rest?.onlyElements === true, elementsDiffer),
    ...compare(objectsOf(table?.shape ?? []), objectsOf(wanted.shape), extra, missing, wanted),
    // With many elements, these two take long, and only few ask for them.
    get current() {
      return linesOf(table);
    },
    get wanted() {
      return plannedLines(wanted);
    },
    remakes: remade === 'all',
    script,
  };
  return { draft, ...(writing ?? { preparation: '', script, elements: undefined, remade: 'all' }) };
}

/** The elements of the set of destinations that are to be added, and those that are to go. */
function differingElements(
  table: TableContent | undefined,
  { elements }: NftablesTable,
): { readonly missing: readonly string[]; readonly extra: readonly string[] } {
  if (table?.elements === elements) return { missing: [], extra: [] };
  return {
    missing: [...elements.keys()].filter((text) => !table?.elements.has(text)),
    extra: [...(table?.elements.keys() ?? [])].filter((text) => !elements.has(text)),
  };
}

/** Everything in which a table differs from the one that is wanted. */
interface TableDifference {
  readonly missing: readonly string[];
  readonly extra: readonly string[];
  readonly rest: RestPlan;
  readonly wanted: NftablesTable;
}

/** Writes only what differs; undefined if nft cannot do that, or needs too long. */
function writeSingly(
  family: Family,
  table: TableContent,
  { missing, extra, rest, wanted }: TableDifference,
  overNetlink: boolean,
): Writing | undefined {
  const elements = overNetlink && rest === NOTHING ? elementChange(extra, missing, wanted) : undefined;
  const isSlow = elements === undefined && extra.length * table.elements.size > MOST_DELETING;
  // nft 1.0.6 crashes if it deletes this element.
  if (isSlow || extra.includes(CATCH_ALL)) return undefined;
  return {
    preparation: rest.preparation,
    script: `${change(family, SET, extra, missing)}${rest.script}`,
    elements,
    remade: rest.remakesChain ? 'chain' : 'nothing',
  };
}

/** The change of the set as ranges; undefined if the set holds something else. */
function elementChange(
  extra: readonly string[],
  missing: readonly string[],
  { elements, ranges }: NftablesTable,
): ElementChange | undefined {
  const remove = extra.flatMap((text) => parseRange(text) ?? []);
  if (remove.length !== extra.length) return undefined;
  const names = new Set(missing);
  const isMissing = Array.from(elements.keys(), (text) => names.has(text));
  return { remove, add: ranges.filter((_, index) => isMissing[index]) };
}

/** The plan that removes the table; undefined if there is none, or another program has made it. */
export function planRemoval({ family, table }: NftablesObservation): Draft | undefined {
  if (table?.isOwn !== true) return undefined;
  const current = linesOf(table);
  return {
    family,
    found: ['table left over'],
    added: [],
    removed: current.map((text) => ({ text, entry: undefined })),
    kept: 0,
    current,
    wanted: [],
    remakes: true,
    script: `delete table ${NFT_FAMILY[family].protocol} ${TABLE}\n`,
  };
}

function differences(
  table: TableContent | undefined,
  sameShape: boolean,
  elementsDiffer: boolean,
): readonly Difference[] {
  if (table === undefined) return ['table missing'];
  return [
    ...(sameShape ? [] : ['rules differ' as const]),
    ...(elementsDiffer ? ['elements differ' as const] : []),
  ];
}

/** Deletes elements, then adds elements: an added one may overlap a deleted one. */
function change(
  family: Family,
  name: typeof SET | typeof FROM_SET,
  extra: readonly string[],
  missing: readonly string[],
): string {
  const set = `${NFT_FAMILY[family].protocol} ${TABLE} ${name}`;
  const line = (verb: string, elements: readonly string[]) =>
    elements.length === 0 ? [] : [`${verb} element ${set} { ${elements.join(', ')} }`];
  return [...line('delete', extra), ...line('add', missing), ''].join('\n');
}

/** Everything in the table, one line each, for people. */
function linesOf(table: TableContent | undefined): readonly string[] {
  if (table === undefined) return [];
  return [...objectsOf(table.shape), ...[...table.elements.keys()].map(elementLine)];
}

function plannedLines({ shape, elements }: NftablesTable): readonly PlannedRule[] {
  return [
    ...objectsOf(shape).map((text) => ({ text, entry: undefined })),
    ...Array.from(elements, ([text, entry]) => ({ text: elementLine(text), entry })),
  ];
}

/** The objects of a shape, one line each: a set or chain with its properties, and each rule of a chain. */
function objectsOf(shape: readonly string[]): readonly string[] {
  const objects: string[] = [];
  let block: { readonly head: string; readonly says: string[] } | undefined;
  const close = () => {
    if (block !== undefined) objects.push(`${block.head} ${block.says.join('; ')}`);
    block = undefined;
  };
  for (const line of shape) {
    const [, head] = /^(.*) \{$/.exec(line) ?? [];
    if (head !== undefined) block = { head, says: [] };
    else if (line === '}') close();
    else if (block?.head.startsWith('chain ') === true && !/^(?:comment|type) /.test(line)) {
      close();
      objects.push(`rule ${line}`);
    } else if (block === undefined)
      objects.push(/^(?:comment|flags) /.test(line) ? `table ${line}` : `rule ${line}`);
    else block.says.push(line.replace(/;$/, ''));
  }
  return objects;
}

function elementLine(text: string): string {
  return `element ${text}`;
}

/** What changes: objects of the shape, and elements. */
function compare(
  before: readonly string[],
  after: readonly string[],
  extra: readonly string[],
  missing: readonly string[],
  { elements }: NftablesTable,
): Pick<Plan, 'added' | 'removed' | 'kept'> {
  const without = (lines: readonly string[], others: readonly string[]) =>
    lines.filter((text) => !others.includes(text)).map((text) => ({ text, entry: undefined }));
  const added = [
    ...without(after, before),
    ...missing.map((text) => ({ text: elementLine(text), entry: elements.get(text) })),
  ];
  const removed = [...without(before, after), ...without(extra.map(elementLine), [])];
  return { added, removed, kept: after.length + elements.size - added.length };
}

/** A change of all but the set of destinations. */
interface RestPlan {
  readonly preparation: string;
  readonly script: string;
  readonly remakesChain: boolean;
  /** Whether only elements of the second set differ. */
  readonly onlyElements: boolean;
}

const NOTHING: RestPlan = { preparation: '', script: '', remakesChain: false, onlyElements: false };

/** The change of the chain and the second set, `NOTHING` if they are the same; undefined if more than that differs. */
function planRest(family: Family, before: readonly string[], after: readonly string[]): RestPlan | undefined {
  if (sameLines(before, after)) return NOTHING;
  const [old, wanted] = [sectionsOf(family, before), sectionsOf(family, after)];
  const chains = old.chains.filter((line) => line.startsWith('chain '));
  const isOneChain = chains.length === 1 && chains[0] === `chain ${CHAIN} {`;
  if (!isOneChain || !sameLines(old.head, wanted.head)) return undefined;
  const stays = old.from !== undefined && wanted.from !== undefined;
  const [gone, added] = stays ? [without(old.from, wanted.from), without(wanted.from, old.from)] : [[], []];
  if (gone.length * (old.from?.length ?? 0) > MOST_DELETING) return undefined;
  const elements = change(family, FROM_SET, gone, added);
  if (sameLines(old.chains, wanted.chains)) {
    const differs = gone.length + added.length > 0;
    return stays && differs ? { ...NOTHING, script: elements, onlyElements: true } : undefined;
  }
  const chain = renderChainTransaction(family, old, wanted);
  const comes = old.from === undefined && wanted.from !== undefined;
  const preparation = comes ? renderFromSetTransaction(family, wanted.from) : '';
  return { preparation, script: `${elements}${chain}`, remakesChain: true, onlyElements: false };
}

function without(texts: readonly string[], others: readonly string[]): readonly string[] {
  const known = new Set(others);
  return texts.filter((text) => !known.has(text));
}

function sameLines(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((line, index) => line === b[index]);
}

function foreignTable(family: Family): DataplaneError {
  const name = `${NFT_FAMILY[family].protocol} ${TABLE}`;
  return new DataplaneError(
    'refused',
    `the table ${name} is not the agent's: it has no comment that begins with "${COMMENT_START}"`,
    `find out which program made it, and rename or delete it: nft delete table ${name}`,
  );
}

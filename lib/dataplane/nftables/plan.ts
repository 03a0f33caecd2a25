import { parseRange, type Range } from '../../cidr/ranges.ts';
import type { Family, Policy } from '../../policy/policy.ts';
import type { Difference, Draft, Plan, PlannedRule } from '../dataplane.ts';
import { COMMENT_START } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Remade } from '../memory.ts';
import type { RuleOptions } from '../options.ts';
import { CATCH_ALL, FROM_SET, NFT_FAMILY, SET, TABLE } from './names.ts';
import { chainLines, isOwn, type NftTable, objectLines, tableLines } from './objects.ts';
import {
  fromElements,
  type PolicyTable,
  renderChainTransaction,
  renderFromSetTransaction,
  renderTable,
  renderTransaction,
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
  table: NftTable | undefined,
  policy: Policy,
  options: RuleOptions,
  how: WritingOptions,
): TablePlan | undefined {
  const { family } = policy;
  if (table !== undefined && !isOwn(table)) throw foreignTable(family);
  const wanted = renderTable(policy, options);
  const { missing, extra } = differingElements(table, wanted);
  const rest = planRest(family, table, wanted);
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
    ...compare(table === undefined ? [] : objectLines(table), objectLines(wanted), extra, missing, wanted),
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
  table: NftTable | undefined,
  { elements }: PolicyTable,
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
  readonly wanted: PolicyTable;
}

/** Writes only what differs; undefined if nft cannot do that, or needs too long. */
function writeSingly(
  family: Family,
  table: NftTable,
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
  { elements, ranges }: PolicyTable,
): ElementChange | undefined {
  const remove = extra.flatMap((text) => parseRange(text) ?? []);
  if (remove.length !== extra.length) return undefined;
  const names = new Set(missing);
  const isMissing = Array.from(elements.keys(), (text) => names.has(text));
  return { remove, add: ranges.filter((_, index) => isMissing[index]) };
}

/** The plan that removes the table; undefined if there is none, or another program has made it. */
export function planRemoval(family: Family, table: NftTable | undefined): Draft | undefined {
  if (table === undefined || !isOwn(table)) return undefined;
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
  table: NftTable | undefined,
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
function linesOf(table: NftTable | undefined): readonly string[] {
  if (table === undefined) return [];
  return [...objectLines(table), ...[...table.elements.keys()].map(elementLine)];
}

function plannedLines(table: PolicyTable): readonly PlannedRule[] {
  return [
    ...objectLines(table).map((text) => ({ text, entry: undefined })),
    ...Array.from(table.elements, ([text, entry]) => ({ text: elementLine(text), entry })),
  ];
}

function elementLine(text: string): string {
  return `element ${text}`;
}

/** What changes: objects, and elements. */
function compare(
  before: readonly string[],
  after: readonly string[],
  extra: readonly string[],
  missing: readonly string[],
  { elements }: PolicyTable,
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

/** The change of chains and the second set, `NOTHING` if they are the same; undefined if more than that differs. */
function planRest(family: Family, before: NftTable | undefined, after: PolicyTable): RestPlan | undefined {
  if (before === undefined || !sameLines(otherLines(family, before), otherLines(family, after)))
    return undefined;
  const headsOf = ({ chains }: NftTable) => chains.map(({ head }) => head);
  if (!sameLines(headsOf(before), headsOf(after))) return undefined;
  const pairs = after.chains.flatMap((chain, index) => {
    const old = before.chains[index];
    return old && !sameLines(chainLines(old), chainLines(chain)) ? [{ before: old, after: chain }] : [];
  });
  const [had, wants] = [fromElements(family, before), fromElements(family, after)];
  const stays = had !== undefined && wants !== undefined;
  const [gone, added] = stays ? [without(had, wants), without(wants, had)] : [[], []];
  if (gone.length * (had?.length ?? 0) > MOST_DELETING) return undefined;
  const elements = change(family, FROM_SET, gone, added);
  if (pairs.length > 0) {
    const comes = had === undefined && wants !== undefined;
    const chains = renderChainTransaction(family, pairs, had !== undefined && wants === undefined);
    const preparation = comes ? renderFromSetTransaction(family, wants) : '';
    return { preparation, script: `${elements}${chains}`, remakesChain: true, onlyElements: false };
  }
  if (stays && elements !== '') return { ...NOTHING, script: elements, onlyElements: true };
  return stays || had === wants ? NOTHING : undefined;
}

/** The lines of all but the chains, and the second set if only its elements can differ. */
function otherLines(family: Family, table: NftTable): readonly string[] {
  const isRead = fromElements(family, table) !== undefined;
  const sets = table.sets.filter(({ head }) => !isRead || head !== `set ${FROM_SET}`);
  return tableLines({ ...table, sets, chains: [] });
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

import { isDeepStrictEqual } from 'node:util';
import { parseRange, type Range } from '../../cidr/ranges.ts';
import type { Family, Policy } from '../../policy/policy.ts';
import { COMMENT_START, type Draft, unplanned } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Remade } from '../memory.ts';
import type { RuleOptions } from '../options.ts';
import { CATCH_ALL, CHAINS, FROM_SET, SET, tableName } from './names.ts';
import {
  chainLines,
  chainName,
  isOwn,
  type NftSet,
  type NftTable,
  objectLines,
  tableLines,
} from './objects.ts';
import {
  type ChangedChain,
  fromElements,
  type PolicyTable,
  renderChainTransaction,
  renderFromSetTransaction,
  renderTable,
  renderTransaction,
} from './table.ts';

export interface TablePlan extends Writing {
  readonly draft: Draft;
}

interface Writing {
  /** What nft reads first, in a transaction of its own that changes no verdict; empty if nothing. */
  readonly preparation: string;
  readonly script: string;
  /** The same over netlink; undefined if more than elements is written, or netlink does not work. */
  readonly elements: ElementChange | undefined;
  readonly remade: Remade;
}

interface ElementChange {
  readonly remove: readonly Range[];
  readonly add: readonly Range[];
}

/**
 * The limit for single deletions by nft: the number of deletions times the elements of the set. In nft 1.0.6 each
 * deletion takes some 2 µs for every element of the set: 100 of 50,000 take 18 s, but the whole table takes 1 s.
 */
const MOST_DELETING = 100_000;

/** What writes the change: netlink or nft what differs, or nft everything. */
type Means = 'netlink' | 'nft' | 'nft, whole';

interface Delta {
  readonly gone: readonly string[];
  readonly added: readonly string[];
}

const SAME: Delta = { gone: [], added: [] };
const NO_TABLE: NftTable = { properties: [], sets: [], chains: [], elements: new Map() };

/**
 * Plans the change to exactly the policy; undefined if nothing differs. If only elements differ, only these are written, and
 * the others keep their counts, unless nft would have to delete too many. If the set of destinations is as it should be, the
 * chains that differ are written again. Otherwise the whole table is.
 *
 * @throws {DataplaneError} if another program has made a table with the same name
 */
export function planTable(
  table: NftTable | undefined,
  policy: Policy,
  options: RuleOptions,
  means: Means,
): TablePlan | undefined {
  const { family } = policy;
  if (table !== undefined && !isOwn(table)) throw foreignTable(family);
  const [had, wanted] = [table ?? NO_TABLE, renderTable(policy, options)];
  const elements =
    had.elements === wanted.elements
      ? SAME
      : delta([...had.elements.keys()], [...wanted.elements.keys()], had.elements, wanted.elements);
  const second = secondDelta(family, had, wanted);
  const hasSameRules = isDeepStrictEqual(ruleLines(family, had), ruleLines(family, wanted));
  const elementsDiffer = !isSame(elements) || !isSame(second);
  if (table !== undefined && hasSameRules && !elementsDiffer) return undefined;

  const singly =
    means === 'nft, whole' || table === undefined
      ? undefined
      : writeSingly(family, had, wanted, [elements, second], means);
  const writing = singly ?? {
    preparation: '',
    script: renderTransaction(family, wanted),
    elements: undefined,
    remade: 'all',
  };
  const wantedLines = objectLines(wanted);
  const lines = delta(objectLines(had), wantedLines);
  const added = [
    ...lines.added.map(unplanned),
    ...elements.added.map((text) => ({ text: elementLine(text), entry: wanted.elements.get(text) })),
  ];
  const draft: Draft = {
    family,
    found:
      table === undefined
        ? ['table missing']
        : [
            ...(hasSameRules ? [] : (['rules differ'] as const)),
            ...(elementsDiffer ? (['elements differ'] as const) : []),
          ],
    added,
    removed: [...lines.gone, ...elements.gone.map(elementLine)].map(unplanned),
    kept: wantedLines.length + wanted.elements.size - added.length,
    // With many elements, these two take long, and only few ask for them.
    get current() {
      return linesOf(had);
    },
    get wanted() {
      const entries = Array.from(wanted.elements, ([text, entry]) => ({ text: elementLine(text), entry }));
      return [...wantedLines.map(unplanned), ...entries];
    },
    remakes: writing.remade === 'all',
    script: writing.script,
  };
  return { draft, ...writing };
}

/** Writes only what differs; undefined if nft cannot do that, or needs too long. */
function writeSingly(
  family: Family,
  had: NftTable,
  wanted: PolicyTable,
  [elements, second]: readonly [Delta, Delta],
  means: Means,
): Writing | undefined {
  const [old, from] = [fromElements(family, had), fromElements(family, wanted)];
  if (!isDeepStrictEqual(frameLines(family, had), frameLines(family, wanted))) return undefined;
  const chains = changedChains(had, wanted);
  // A second set that comes or goes without a rule that names it.
  if ((old === undefined) !== (from === undefined) && chains.length === 0) return undefined;
  const isGone = old !== undefined && from === undefined;
  const rest = `${change(family, FROM_SET, second)}${renderChainTransaction(family, chains, isGone)}`;
  const ranges = means === 'netlink' && rest === '' ? elementChange(elements, wanted) : undefined;
  const deleting = [
    ranges ? 0 : elements.gone.length * had.elements.size,
    second.gone.length * (old?.length ?? 0),
  ];
  // nft 1.0.6 crashes if it deletes this element.
  if (Math.max(...deleting) > MOST_DELETING || elements.gone.includes(CATCH_ALL)) return undefined;
  return {
    preparation: old === undefined && from !== undefined ? renderFromSetTransaction(family, from) : '',
    script: `${change(family, SET, elements)}${rest}`,
    elements: ranges,
    remade: chains.map(({ name }) => name),
  };
}

function changedChains(had: NftTable, wanted: NftTable): readonly ChangedChain[] {
  return CHAINS.map((name): ChangedChain => {
    const [before, after] = [had, wanted].map(({ chains }) => chains.find((one) => chainName(one) === name));
    return { name, before, after };
  }).filter(
    ({ before, after }) => !isDeepStrictEqual(before && chainLines(before), after && chainLines(after)),
  );
}

/** In what the second sets differ, if both tables have one. */
function secondDelta(family: Family, had: NftTable, wanted: NftTable): Delta {
  const [old, from] = [fromElements(family, had), fromElements(family, wanted)];
  return old && from ? delta(old, from) : SAME;
}

/** All lines; without the elements of the second set, if nothing else in it differs from what the agent writes. */
function ruleLines(family: Family, table: NftTable): readonly string[] {
  if (fromElements(family, table) === undefined) return tableLines(table);
  const sets = table.sets.map(({ elements, ...set }) =>
    isSecond(set) || !elements ? set : { ...set, elements },
  );
  return tableLines({ ...table, sets });
}

/** What a single change cannot write: all but the second set and the agent's chains. */
function frameLines(family: Family, table: NftTable): readonly string[] {
  const isRead = fromElements(family, table) !== undefined;
  const sets = table.sets.filter((set) => !isRead || !isSecond(set));
  const chains = table.chains.filter((chain) => !CHAINS.some((name) => name === chainName(chain)));
  return tableLines({ ...table, sets, chains });
}

function isSecond({ head }: NftSet): boolean {
  return head === `set ${FROM_SET}`;
}

/** The change of the set as ranges; undefined if the set holds something else. */
function elementChange({ gone, added }: Delta, { elements, ranges }: PolicyTable): ElementChange | undefined {
  const remove = gone.flatMap((text) => parseRange(text) ?? []);
  if (remove.length !== gone.length) return undefined;
  const names = new Set(added);
  const isAdded = Array.from(elements.keys(), (text) => names.has(text));
  return { remove, add: ranges.filter((_, index) => isAdded[index]) };
}

/** The plan that removes the table; undefined if there is none, or another program has made it. */
export function planRemoval(family: Family, table: NftTable | undefined): Draft | undefined {
  if (table === undefined || !isOwn(table)) return undefined;
  const current = linesOf(table);
  return {
    family,
    found: ['table left over'],
    added: [],
    removed: current.map(unplanned),
    kept: 0,
    current,
    wanted: [],
    remakes: true,
    script: `delete table ${tableName(family)}\n`,
  };
}

/** Deletes elements, then adds elements: an added one may overlap a deleted one. */
function change(family: Family, name: typeof SET | typeof FROM_SET, { gone, added }: Delta): string {
  const set = `${tableName(family)} ${name}`;
  const line = (verb: string, elements: readonly string[]) =>
    elements.length === 0 ? '' : `${verb} element ${set} { ${elements.join(', ')} }\n`;
  return `${line('delete', gone)}${line('add', added)}`;
}

/** Everything in the table, one line each, for people. */
function linesOf(table: NftTable): readonly string[] {
  return [...objectLines(table), ...[...table.elements.keys()].map(elementLine)];
}

function elementLine(text: string): string {
  return `element ${text}`;
}

/** @param had the same texts, if there is a quicker way to look them up */
function delta(
  before: readonly string[],
  after: readonly string[],
  had: Pick<ReadonlySet<string>, 'has'> = new Set(before),
  has: Pick<ReadonlySet<string>, 'has'> = new Set(after),
): Delta {
  return {
    gone: before.filter((text) => !has.has(text)),
    added: after.filter((text) => !had.has(text)),
  };
}

function isSame({ gone, added }: Delta): boolean {
  return gone.length + added.length === 0;
}

function foreignTable(family: Family): DataplaneError {
  const name = tableName(family);
  return new DataplaneError(
    'refused',
    `the table ${name} is not the agent's: it has no comment that begins with "${COMMENT_START}"`,
    `find out which program made it, and rename or delete it: nft delete table ${name}`,
  );
}

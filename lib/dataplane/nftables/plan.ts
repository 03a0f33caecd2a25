import { isDeepStrictEqual } from 'node:util';
import { formatRange, type Range, sameRanges } from '../../cidr/ranges.ts';
import type { Entry, Family, Policy } from '../../policy/policy.ts';
import { COMMENT_START, type DifferenceKind, type Draft, type PlannedRule, unplanned } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { RuleOptions } from '../options.ts';
import { addChain, addRules, addSets, addTable, place, type Transaction } from './commands.ts';
import { purposeOf, SET, tableName } from './names.ts';
import {
  chainLine,
  chainLines,
  isOwn,
  linesOf,
  setFor,
  setProperties,
  type Table,
  tableProperties,
  withoutSpare,
} from './ruleset.ts';
import { type MeantSet, type PolicyTable, renderTable, withNames } from './table.ts';

/** One transaction after the other. During and after each, packets have the old verdicts or the new ones, unless it makes the table again. */
interface Steps {
  readonly transactions: readonly Transaction[];
  /** Each deletes a set that no packet meets any more, and is a transaction of its own. */
  readonly cleanup: Transaction;
  /** The chains that it has then. */
  readonly chains: PolicyTable['chains'];
}

export interface TablePlan extends Steps {
  readonly draft: Draft;
}

/**
 * Plans the change to exactly the policy; undefined if nothing differs.
 *
 * @param read the table in the kernel; undefined if there is none
 * @param keepsSpare whether sets that no rule looks up are no reason to change anything
 * @throws {DataplaneError} if another program has made the table, or owns it
 */
export function planTable(
  read: Table | undefined,
  policy: Policy,
  options: RuleOptions,
  keepsSpare = false,
): TablePlan | undefined {
  if (read !== undefined) refuseForeign(read);
  const wanted = renderTable(policy, options);
  // The kernel cannot change the user data of a table. No packet meets it, so it is not worth a new table.
  const table = read && { ...read, comment: wanted.comment, extra: undefined };
  const had = table && keepsSpare ? withoutSpare(table) : table;
  // People read what changes, not that a set changes its name with its content.
  const shown = withNames(wanted, ({ name }) => (had && setFor(had, name)?.name) ?? name);
  const found = differencesOf(had, shown);
  if (found.length === 0) return undefined;
  const steps = stepsTo(wanted, table);
  const after = { lines: linesOf(shown), elements: wanted.segments };
  return { ...steps, draft: draftOf(found, policy.family, had && contentOf(had), after) };
}

/** What people read of a table: a line for each object and rule, and the elements of its set of destinations, ascending. */
interface Content {
  readonly lines: readonly string[];
  readonly elements: readonly (Range & { readonly entry?: Entry })[];
}

const NOTHING: Content = { lines: [], elements: [] };

function contentOf(table: Table): Content {
  return { lines: linesOf(table), elements: setFor(table, SET)?.ranges ?? [] };
}

/** Of 100,000 elements only those that change become texts, unless somebody asks for all. */
function draftOf(
  found: readonly DifferenceKind[],
  family: Family,
  before: Content = NOTHING,
  after: Content,
): Draft {
  const added = plannedRules(family, without(after, before));
  return {
    family,
    found,
    added,
    removed: plannedRules(family, without(before, after)).map(({ text }) => unplanned(text)),
    kept: after.lines.length + after.elements.length - added.length,
    get current() {
      return plannedRules(family, before).map(({ text }) => text);
    },
    get wanted() {
      return plannedRules(family, after);
    },
  };
}

/** The part of the content that the other one lacks. */
function without(content: Content, other: Content): Content {
  const lines = new Set(other.lines);
  let at = 0;
  return {
    lines: content.lines.filter((line) => !lines.has(line)),
    elements: content.elements.filter(({ first, last }) => {
      for (let one = other.elements[at]; one && one.first < first; one = other.elements[at]) at += 1;
      return other.elements[at]?.first !== first || other.elements[at]?.last !== last;
    }),
  };
}

function plannedRules(family: Family, { lines, elements }: Content): readonly PlannedRule[] {
  return [
    ...lines.map(unplanned),
    ...elements.map((one) => ({ text: `element ${formatRange(family, one)}`, entry: one.entry })),
  ];
}

function differencesOf(table: Table | undefined, wanted: PolicyTable): readonly DifferenceKind[] {
  if (table === undefined) return ['table missing'];
  const hasSameLines = isDeepStrictEqual(linesOf(table), linesOf(wanted));
  const hasSameElements = wanted.sets.every(({ name, ranges }) => {
    const set = table.sets.find((one) => one.name === name);
    return set === undefined || sameRanges(set.ranges, ranges);
  });
  return [
    ...(hasSameLines ? [] : (['rules differ'] as const)),
    ...(hasSameElements ? [] : (['elements differ'] as const)),
  ];
}

/**
 * A set that rules look up is never written, because a packet can meet a part of such a change: on most kernels an element can
 * hide the one around it, and elements and rules do not switch at the same moment. New sets come first, which nothing looks up
 * yet. Then all rules switch to them at once, and at last the old sets go.
 */
function stepsTo(wanted: PolicyTable, table: Table | undefined): Steps {
  const { family, chains } = wanted;
  const own = place(family);
  const addChains = chains.flatMap((chain) => [addChain(family, chain), ...addRules(family, chain)]);
  const flush = { kind: 'flush table', ...own } as const;
  // Without the flush, a table that is gone looks like a type of chain that the kernel does not know.
  if (table === undefined)
    return { transactions: [addTable(wanted), [flush, ...addChains]], cleanup: [], chains };
  if (!isDeepStrictEqual(tableProperties(table), tableProperties(wanted)))
    return {
      transactions: [[{ kind: 'delete table', ...own }, ...addTable(wanted), ...addChains]],
      cleanup: [],
      chains,
    };
  const named = withNames(wanted, (set) => rightSet(table, set) ?? freeName(table, set));
  const isIn = (sets: Table['sets'], { name }: Table['sets'][number]) =>
    sets.some((set) => set.name === name);
  const missing = named.sets.filter((set) => !isIn(table.sets, set));
  const spare = table.sets.filter((set) => set.isAnonymous !== true && !isIn(named.sets, set));
  const hasSameRules = isDeepStrictEqual(chainLines(table), chainLines(named));
  return {
    transactions: [
      addSets(family, missing),
      hasSameRules ? [] : [flush, ...switchRules(table, named)],
    ].filter((commands) => commands.length > 0),
    cleanup: spare.map(({ name }) => ({ kind: 'delete set', ...own, set: name })),
    chains: named.chains,
  };
}

/** Behind the flush, replaces chains that are wrong, deletes all that other programs have put into the table but sets, and adds the rules. */
function switchRules(table: Table, { family, chains }: PolicyTable): Transaction {
  const own = place(family);
  const [had, kept] = [new Set(table.chains.map(chainLine)), new Set(chains.map(chainLine))];
  const wrong = table.chains.filter((chain) => !kept.has(chainLine(chain)));
  return [
    ...wrong.map(({ name }) => ({ kind: 'delete chain', ...own, chain: name }) as const),
    ...table.objects.map((object) => ({ kind: 'delete object', ...own, ...object }) as const),
    ...chains.filter((chain) => !had.has(chainLine(chain))).map((chain) => addChain(family, chain)),
    ...chains.flatMap((chain) => addRules(family, chain)),
  ];
}

/** The name of a set that is right, by all that can be read of it; if there are several, of one that rules look up. */
function rightSet(table: Table, wanted: MeantSet): string | undefined {
  const isRight = (set: Table['sets'][number]) =>
    purposeOf(set.name) === wanted.name &&
    isDeepStrictEqual(setProperties(set), setProperties(wanted)) &&
    sameRanges(set.ranges, wanted.ranges);
  return setFor({ ...table, sets: table.sets.filter(isRight) }, wanted.name)?.name;
}

function freeName({ sets }: Table, { name }: MeantSet): string {
  const taken = new Set(sets.map((set) => set.name));
  let free = name;
  for (let number = 2; taken.has(free); number += 1) free = `${name}-${number}`;
  return free;
}

/** The plan that removes the agent's table; undefined if there is none, or another program has made it. */
export function planRemoval(table: Table | undefined): TablePlan | undefined {
  if (table === undefined || !isOwn(table)) return undefined;
  refuseForeign(table);
  const transaction = [{ kind: 'delete table', ...place(table.family) }] as const;
  const draft = draftOf(['table left over'], table.family, contentOf(table), NOTHING);
  return { transactions: [transaction], cleanup: [], chains: [], draft };
}

/** @throws {DataplaneError} if only another program may change the table */
function refuseForeign(table: Table): void {
  const name = tableName(table.family);
  // Only the socket that has made a table with the flag `owner` may change it (nft(8)).
  if (table.owner !== undefined)
    throw new DataplaneError(
      'blocked',
      `another process owns the table ${name} (netlink port ${table.owner}, usually the process id): only that process may change it`,
      'end that process, with which the table goes, or use --backend=iptables',
    );
  if (!isOwn(table))
    throw new DataplaneError(
      'blocked',
      `the table ${name} is not the agent's: it has no comment that begins with "${COMMENT_START}"`,
      `find out which program made it, and let that program use another name, or end it`,
    );
}

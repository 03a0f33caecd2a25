import { isDeepStrictEqual } from 'node:util';
import { formatRange, type Range, sameRanges } from '../../cidr/ranges.ts';
import type { Family, Policy } from '../../policy/policy.ts';
import { COMMENT_START, type DifferenceKind, type Draft, unplanned } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { RuleOptions } from '../options.ts';
import { type NftCommand, NftCommands, scriptOf } from './commands.ts';
import { INTERIM_TABLE, SET, TABLE, tableName } from './names.ts';
import type { Ruleset } from './observe.ts';
import { isOwn, linesOf, ruleText, type Table, type TableChain } from './ruleset.ts';
import { type MeantSet, type PolicyTable, renderTable } from './table.ts';

/** NftCommands that nf_tables carries out together. */
type Transaction = readonly NftCommand[];

export interface TablePlan {
  readonly draft: Draft;
  /** One after the other: after each of them, packets have the old verdicts or the new ones. */
  readonly transactions: readonly Transaction[];
}

/**
 * Plans the change to exactly the policy; undefined if nothing differs. Elements and rules that differ are written singly. If
 * anything else does, an interim table takes over while the whole table is made again.
 *
 * @param isWhole whether to make the whole table again, because what differs could not be changed singly
 * @throws {DataplaneError} if another program has made the table, or owns it
 */
export function planTable(
  { table, interim }: Ruleset,
  policy: Policy,
  options: RuleOptions,
  isWhole = false,
): TablePlan | undefined {
  const { family } = policy;
  if (table !== undefined) refuseForeign(family, table);
  const wanted = renderTable(policy, options);
  const differences = differencesOf(table, wanted);
  if (differences.length === 0 && interim === undefined) return undefined;
  const changes = differences.length === 0 ? [] : changesOf(table, wanted, isWhole);
  const leftover = interim === undefined ? [] : [new NftCommands(family, INTERIM_TABLE).deleteTable()];
  const transactions =
    changes === undefined
      ? makeAgain(wanted, leftover)
      : [...changes, leftover].filter((commands) => commands.length > 0);
  const current = table === undefined ? [] : textsOf(table);
  const planned = [
    ...linesOf(wanted).map(unplanned),
    ...wanted.segments.map(({ entry, ...range }) => ({ text: elementText(family, range), entry })),
  ];
  const [before, after] = [new Set(current), new Set(planned.map(({ text }) => text))];
  const added = planned.filter(({ text }) => !before.has(text));
  const draft: Draft = {
    family,
    found: interim === undefined ? differences : [...differences, 'table left over'],
    added,
    removed: current.filter((text) => !after.has(text)).map(unplanned),
    kept: planned.length - added.length,
    current,
    wanted: planned,
    remakes: table === undefined || changes === undefined,
    script: scriptOf(transactions),
  };
  return { draft, transactions };
}

function differencesOf(table: Table | undefined, wanted: PolicyTable): readonly DifferenceKind[] {
  if (table === undefined) return ['table missing'];
  const hasSameLines = isDeepStrictEqual(linesOf(table), linesOf(wanted));
  return [
    ...(hasSameLines ? [] : (['rules differ'] as const)),
    ...(changedSets(table, wanted).length === 0 ? [] : (['elements differ'] as const)),
  ];
}

/** Makes the table, or writes what differs in it; undefined if the whole table is to be made again. */
function changesOf(
  table: Table | undefined,
  wanted: PolicyTable,
  isWhole: boolean,
): readonly Transaction[] | undefined {
  const own = new NftCommands(wanted.family, TABLE);
  if (table === undefined) return [own.addTable(wanted), own.addChains(wanted.chains)];
  return isWhole ? undefined : changeSingly(table, wanted);
}

/**
 * Makes the whole table again: first an interim table, whose chains decide as the new ones will, and sets always before rules
 * that use them, because a packet can meet a rule before the kernel finds the elements of the same transaction (measured on
 * Linux 6.18: once in some 150).
 */
function makeAgain(wanted: PolicyTable, leftover: Transaction): readonly Transaction[] {
  const { family, chains } = wanted;
  const [interim, own] = [new NftCommands(family, INTERIM_TABLE), new NftCommands(family, TABLE)];
  return [
    [...leftover, ...interim.addTable(wanted)],
    interim.addChains(chains),
    [own.deleteTable(), ...own.addTable(wanted)],
    own.addChains(chains),
    [interim.deleteTable()],
  ];
}

/**
 * Writes the elements and rules that differ; undefined if anything else differs, or the elements of two sets: in one transaction,
 * a packet can meet one set as it was and the other as it will be, and what neither the old nor the new config masquerades must
 * not be masqueraded then (measured on Linux 6.18: once in 92 changes of both). It keeps the sets: a packet between two rules
 * that finds its set gone would be masqueraded (14 packets in 300 transactions of the whole table).
 */
function changeSingly(had: Table, wanted: PolicyTable): readonly Transaction[] | undefined {
  const { family } = wanted;
  const sets = changedSets(had, wanted);
  if (sets.length > 1 || !isDeepStrictEqual(frameOf(had), frameOf(wanted))) return undefined;
  const own = new NftCommands(family, TABLE);
  const elements = sets.flatMap(({ name, ranges }) => [
    // An added one may overlap a deleted one.
    ...own.elements('delete', name, without(rangesOf(had, name), ranges)),
    ...own.elements('add', name, without(ranges, rangesOf(had, name))),
  ]);
  const textsOfRules = (chain: TableChain | undefined) => chain?.rules.map((rule) => ruleText(family, rule));
  const rules = wanted.chains
    .filter((chain, index) => !isDeepStrictEqual(textsOfRules(had.chains[index]), textsOfRules(chain)))
    .flatMap((chain) => [own.flushChain(chain.name), ...own.addRules(chain)]);
  return [[...elements, ...rules]];
}

/** All but elements and rules. */
function frameOf(table: Table): readonly string[] {
  return linesOf(table).filter((line) => !line.startsWith('rule '));
}

/** The sets that the table has, but with other elements. */
function changedSets({ sets }: Table, wanted: PolicyTable): readonly MeantSet[] {
  return wanted.sets.filter((set) =>
    sets.some((one) => one.name === set.name && !sameRanges(one.ranges, set.ranges)),
  );
}

function without(ranges: readonly Range[], others: readonly Range[]): readonly Range[] {
  const keyOf = ({ first, last }: Range) => `${first} ${last}`;
  const keys = new Set(others.map(keyOf));
  return ranges.filter((range) => !keys.has(keyOf(range)));
}

function rangesOf({ sets }: Table, name: string): readonly Range[] {
  return sets.find((set) => set.name === name)?.ranges ?? [];
}

/** The plan that removes the agent's tables; undefined if there are none, or another program has made them. */
export function planRemoval({ family, table, interim }: Ruleset): TablePlan | undefined {
  const own = table !== undefined && isOwn(table) ? table : undefined;
  if (own !== undefined) refuseForeign(family, own);
  const tables = [
    ...(own === undefined ? [] : [{ table: own, name: TABLE }]),
    ...(interim === undefined ? [] : [{ table: interim, name: INTERIM_TABLE }]),
  ];
  if (tables.length === 0) return undefined;
  const current = tables.flatMap((one) => textsOf(one.table));
  const transactions = [tables.map(({ name }) => new NftCommands(family, name).deleteTable())];
  const draft: Draft = {
    family,
    found: ['table left over'],
    added: [],
    removed: current.map(unplanned),
    kept: 0,
    current,
    wanted: [],
    remakes: true,
    script: scriptOf(transactions),
  };
  return { draft, transactions };
}

/** A line for each object, rule and element of the set of destinations. */
function textsOf(table: Table): readonly string[] {
  return [...linesOf(table), ...rangesOf(table, SET).map((range) => elementText(table.family, range))];
}

function elementText(family: Family, range: Range): string {
  return `element ${formatRange(family, range)}`;
}

/** @throws {DataplaneError} if only another program may change the table */
function refuseForeign(family: Family, table: Table): void {
  const name = tableName(family);
  // Only the socket that has made a table with the flag `owner` may change it (nft(8)).
  if (table.owner !== undefined)
    throw new DataplaneError(
      'refused',
      `another process owns the table ${name} (netlink port ${table.owner}, mostly the process id): only that process may change it`,
      'end that process, with which the table goes, or use --backend=iptables',
    );
  if (!isOwn(table))
    throw new DataplaneError(
      'refused',
      `the table ${name} is not the agent's: it has no comment that begins with "${COMMENT_START}"`,
      `find out which program made it, and rename or delete it: nft delete table ${name}`,
    );
}

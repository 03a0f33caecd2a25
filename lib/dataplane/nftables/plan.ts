import type { Family, Policy } from '../../policy/policy.ts';
import type { Difference, Plan, PlannedRule } from '../dataplane.ts';
import { COMMENT_START } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { RuleOptions } from '../options.ts';
import { NFT_FAMILY, SET, TABLE } from './names.ts';
import type { NftablesObservation, TableContent } from './observe.ts';
import { type NftablesTable, renderTable, renderTransaction } from './table.ts';

/** What makes the kernel hold exactly the policy, and what it holds then. */
export interface TablePlan {
  /** Undefined where nothing differs. */
  readonly plan: Plan | undefined;
  readonly result: NftablesTable;
}

/**
 * Deletions, times the elements of the set, up to which elements are deleted one by one. In nft 1.0.6 each deletion
 * takes some 2 µs for every element of the set: 100 of 50,000 take 18 s, where the whole table is made in 1.
 */
const MOST_DELETING = 100_000;

/**
 * How the kernel comes to hold exactly the policy. Where only elements differ, and not very many go, only these
 * are written, and the others keep their counts; else the whole table is.
 *
 * @throws {DataplaneError} where somebody else has a table of our name
 */
export function planTable(
  { family, table }: NftablesObservation,
  policy: Policy,
  options: RuleOptions,
): TablePlan {
  if (table?.isOurs === false) throw notOurs(family);
  const wanted = renderTable(policy, options);
  const sameShape = table !== undefined && sameLines(table.shape, wanted.shape);
  const come = [...wanted.elements.keys()].filter((text) => table?.elements.has(text) !== true);
  const go = [...(table?.elements.keys() ?? [])].filter((text) => !wanted.elements.has(text));
  if (sameShape && come.length === 0 && go.length === 0) return { plan: undefined, result: wanted };
  const remakes = !sameShape || go.length * table.elements.size > MOST_DELETING;
  const plan = {
    family,
    found: differences(table, sameShape, come.length + go.length > 0),
    ...compare(linesOf(table), plannedLines(wanted)),
    remakes,
    recheck: false,
    script: remakes ? renderTransaction(family, wanted) : change(family, go, come),
  };
  return { plan, result: wanted };
}

/** What removes the table; undefined where there is none, or it is somebody else's. */
export function planRemoval({ family, table }: NftablesObservation): Plan | undefined {
  if (table?.isOurs !== true) return undefined;
  return {
    family,
    found: ['table left over'],
    ...compare(linesOf(table), []),
    remakes: true,
    recheck: false,
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

/** Those that go first: one that comes may overlap them. */
function change(family: Family, go: readonly string[], come: readonly string[]): string {
  const set = `${NFT_FAMILY[family].protocol} ${TABLE} ${SET}`;
  const line = (verb: string, elements: readonly string[]) =>
    elements.length === 0 ? [] : [`${verb} element ${set} { ${elements.join(', ')} }`];
  return [...line('delete', go), ...line('add', come), ''].join('\n');
}

/** Everything in the table for people, one line each. */
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

/** The objects of a shape: a set or a chain with what it says of itself, and each rule of a chain. */
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
      objects.push(line.startsWith('comment ') ? `table ${line}` : `rule ${line}`);
    else block.says.push(line.replace(/;$/, ''));
  }
  return objects;
}

function elementLine(text: string): string {
  return `element ${text}`;
}

function compare(
  current: readonly string[],
  wanted: readonly PlannedRule[],
): Pick<Plan, 'added' | 'removed' | 'kept' | 'current' | 'wanted'> {
  const [before, after] = [new Set(current), new Set(wanted.map(({ text }) => text))];
  const added = wanted.filter(({ text }) => !before.has(text));
  const removed = current.filter((text) => !after.has(text)).map((text) => ({ text, entry: undefined }));
  return { added, removed, kept: wanted.length - added.length, current, wanted };
}

function sameLines(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((line, index) => line === b[index]);
}

function notOurs(family: Family): DataplaneError {
  const name = `${NFT_FAMILY[family].protocol} ${TABLE}`;
  return new DataplaneError(
    'refused',
    `the table ${name} is somebody else's: nothing in it has a comment that begins "${COMMENT_START}"`,
    `find out who made it, and rename or delete it: nft delete table ${name}`,
  );
}

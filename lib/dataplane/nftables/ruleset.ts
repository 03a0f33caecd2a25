import type { Family } from '../../cidr/address.ts';
import { type Range, sameRanges } from '../../cidr/ranges.ts';
import { KEY_TYPE } from '../../netlink/change.ts';
import type { Elements } from '../../netlink/elements.ts';
import type { Expression } from '../../netlink/expressions.ts';
import { NFPROTO } from '../../netlink/messages.ts';
import type { ChainReply, Hook, RuleReply, SetReply, TableReply } from '../../netlink/replies.ts';
import type { UserData } from '../../netlink/user-data.ts';
import { printable } from '../../text/escape.ts';
import { COMMENT_START } from '../dataplane.ts';
import { decode } from './decode.ts';
import { NFT_FAMILY, SET, SOURCE_SETS, SRCNAT } from './names.ts';
import { type Statement, statementText } from './statement.ts';

/**
 * A table of nf_tables as the agent means it, or as the kernel holds it: the same objects, in one normal form. Two tables are the
 * same if their texts and their ranges are. Handles, counts and what the kernel derives from the rest are not part of it.
 */
export interface Table extends UserData {
  readonly family: Family;
  /** Flags, and the owner, which nft(8) prints behind the name. */
  readonly flags: readonly string[];
  /** The port of the netlink socket that alone may change the table; undefined if any may. */
  readonly owner?: number | undefined;
  /** The agent's own first, all others by name; chains by name: the kernel's order is the one in which they were made. */
  readonly sets: readonly TableSet[];
  readonly chains: readonly TableChain[];
  /** How many other objects it holds, such as flow tables. */
  readonly others: number;
  /** No other table has had it; undefined for a table that is only meant. */
  readonly handle?: number;
}

export interface TableSet extends UserData {
  readonly name: string;
  /** Type, flags and what each element does, one line each as in nft(8). */
  readonly properties: readonly string[];
  /** Ascending; undefined if it is no set of ranges of addresses. */
  readonly ranges: readonly CountedRange[] | undefined;
  /** Whether it holds more than ranges: an element for all other addresses, or one with a time limit. */
  readonly hasOthers?: boolean;
  readonly handle?: number;
}

interface CountedRange extends Range {
  readonly packets?: bigint | undefined;
}

export interface TableChain extends UserData {
  readonly name: string;
  readonly hook: Hook | undefined;
  readonly rules: readonly TableRule[];
}

export interface TableRule extends UserData {
  readonly statements: readonly Statement[];
  readonly handle?: number;
  /** Undefined if it does not count, or is only meant. */
  readonly packets?: bigint | undefined;
}

/** NFT_TABLE_F_… in linux/netfilter/nf_tables.h. */
const TABLE_FLAGS = { dormant: 1, owner: 2, persist: 4 } as const;
/** NFT_SET_…. */
const SET_FLAGS = { anonymous: 1, constant: 2, interval: 4, map: 8, timeout: 0x10, dynamic: 0x20 } as const;
const KNOWN_SET_FLAGS = 0x3f;

type ReadElements = Pick<Elements, 'ranges' | 'catchAll' | 'hasOthers'>;

/** What the kernel sends for a table, as a value. */
export function tableOf(
  family: Family,
  table: TableReply,
  sets: readonly (SetReply & { readonly elements: ReadElements | undefined })[],
  chains: readonly (ChainReply & { readonly rules: readonly RuleReply[] })[],
): Table {
  const { flags, owner, handle, use } = table;
  return {
    family,
    ...userData(table),
    flags: names(TABLE_FLAGS, flags),
    ...(owner !== undefined && { owner }),
    sets: sets.map((set) => setOf(family, set)).toSorted(byPlace),
    chains: chains
      .map(({ name, hook, rules, ...chain }) => {
        return { ...userData(chain), name, hook, rules: rules.map((rule) => ruleOf(family, rule)) };
      })
      .toSorted(byName),
    others: use - sets.length - chains.length,
    handle,
  };
}

function setOf(family: Family, set: SetReply & { readonly elements: ReadElements | undefined }): TableSet {
  const { name, handle, elements, size } = set;
  const unknown = set.flags & ~KNOWN_SET_FLAGS;
  const flags = [...names(SET_FLAGS, set.flags), ...(unknown === 0 ? [] : [`0x${unknown.toString(16)}`])];
  const isOfAddresses = set.keyType === KEY_TYPE[family] && set.keyBytes === NFPROTO[family].bytes;
  return {
    ...userData(set),
    name,
    handle,
    properties: [
      `type ${isOfAddresses ? NFT_FAMILY[family].type : set.keyType}`,
      ...(flags.length === 0 ? [] : [`flags ${flags.join(',')}`]),
      ...(size === undefined ? [] : [`size ${size}`]),
      ...set.expressions.map(statefulText),
    ],
    ranges: elements?.ranges,
    ...((elements?.catchAll || elements?.hasOthers) && { hasOthers: true }),
  };
}

function statefulText(expression: Expression): string {
  return expression.name === 'unknown' ? `${expression.type} ${expression.bytes}` : expression.name;
}

function ruleOf(family: Family, { expressions, handle, packets, ...rule }: RuleReply): TableRule {
  return { ...userData(rule), statements: decode(family, expressions), handle, packets };
}

function userData({ comment, extra }: UserData): UserData {
  return { ...(comment !== undefined && { comment }), ...(extra !== undefined && { extra }) };
}

function names(flags: Readonly<Record<string, number>>, value: number): readonly string[] {
  return Object.entries(flags).flatMap(([name, bit]) => ((value & bit) === 0 ? [] : [name]));
}

/** The agent's sets in the order in which it makes them, then all others. */
function byPlace(a: TableSet, b: TableSet): number {
  const placeOf = ({ name }: TableSet) => [SET, ...SOURCE_SETS].indexOf(name) >>> 0;
  return placeOf(a) - placeOf(b) || byName(a, b);
}

function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** A rule as nft(8) writes it, without counts. */
export function ruleText(family: Family, rule: TableRule): string {
  const text = [...rule.statements.map((one) => statementText(family, one)), ...userDataLines(rule)].join(
    ' ',
  );
  // Other programs choose the names of chains and sets.
  return printable(text);
}

/** Comment and flags of the table. */
export function tableProperties(table: Table): readonly string[] {
  return [
    ...userDataLines(table),
    ...(table.flags.length === 0 ? [] : [`flags ${table.flags.join(',')}`]),
    ...(table.others === 0 ? [] : [`${table.others} other objects`]),
  ];
}

export function setProperties(set: TableSet): readonly string[] {
  return [...set.properties, ...userDataLines(set), ...(set.hasOthers === true ? ['other elements'] : [])];
}

export function chainProperties(chain: TableChain): readonly string[] {
  return [...userDataLines(chain), ...(chain.hook === undefined ? [] : [hookText(chain.hook)])];
}

/** NF_INET_…, as nft(8) names them. */
const HOOKS = ['prerouting', 'input', 'forward', 'output', 'postrouting', 'ingress'];

function hookText({ type, number, priority, policy }: Hook): string {
  const offset = priority - SRCNAT;
  const isNear = number === 4 && Math.abs(offset) <= 10;
  const named = offset === 0 ? 'srcnat' : `srcnat ${offset < 0 ? '-' : '+'} ${Math.abs(offset)}`;
  const verdict = ['drop', 'accept'][policy] ?? policy;
  return `type ${type} hook ${HOOKS[number] ?? number} priority ${isNear ? named : priority}; policy ${verdict};`;
}

function userDataLines({ comment, extra }: UserData): readonly string[] {
  return [
    ...(comment === undefined ? [] : [`comment "${printable(comment)}"`]),
    ...(extra === undefined ? [] : [`user data ${extra}`]),
  ];
}

/** Everything but ranges, one line for each object and rule: tables with the same lines and ranges are the same. */
export function linesOf(table: Table): readonly string[] {
  const { family } = table;
  const line = (head: string, properties: readonly string[]) =>
    `${head} ${properties.map((one) => one.replace(/;$/, '')).join('; ')}`;
  return [
    ...tableProperties(table).map((one) => `table ${one}`),
    ...table.sets.map((set) => line(`set ${printable(set.name)}`, setProperties(set))),
    ...table.chains.flatMap((chain) => [
      line(`chain ${printable(chain.name)}`, chainProperties(chain)),
      ...chain.rules.map((rule) => `rule ${ruleText(family, rule)}`),
    ]),
  ];
}

/** Whether two tables differ in nothing but counts and handles. */
export function isSameTable(a: Table, b: Table): boolean {
  if (a === b) return true;
  const [lines, others] = [linesOf(a), linesOf(b)];
  return (
    lines.length === others.length &&
    lines.every((line, index) => line === others[index]) &&
    a.sets.every(({ ranges }, index) => sameRanges(ranges, b.sets[index]?.ranges))
  );
}

/** Whether a comment in the table begins as the agent's comments do; otherwise another program has made it. */
export function isOwn(table: Table): boolean {
  const objects: readonly UserData[] = [
    table,
    ...table.sets,
    ...table.chains,
    ...table.chains.flatMap(({ rules }) => rules),
  ];
  return objects.some(({ comment }) => comment?.startsWith(COMMENT_START));
}

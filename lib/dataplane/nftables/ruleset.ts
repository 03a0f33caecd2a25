import type { Family } from '../../cidr/address.ts';
import type { Range } from '../../cidr/ranges.ts';
import { KEY_TYPE } from '../../netlink/change.ts';
import type { Elements } from '../../netlink/elements.ts';
import type { Expression } from '../../netlink/expressions.ts';
import { NFPROTO } from '../../netlink/messages.ts';
import type {
  ChainReply,
  Hook,
  ObjectReply,
  RuleReply,
  SetReply,
  TableReply,
} from '../../netlink/replies.ts';
import type { UserData } from '../../netlink/user-data.ts';
import { printable } from '../../text/escape.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { PortOptions } from '../ports.ts';
import { NFT_FAMILY, purposeOf, SRCNAT } from './names.ts';
import { rawText, recogniser } from './recognise.ts';
import type { OwnRule } from './rules.ts';

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
  /** Sets and chains by name: the kernel's order is the one in which they were made. */
  readonly sets: readonly TableSet[];
  readonly chains: readonly TableChain[];
  /** Such as named counters, which the agent never makes. */
  readonly objects: readonly ObjectReply[];
  /** How many other things it holds that nobody can delete one by one, such as flow tables, maps with what they lead to, and chains in rules. */
  readonly others: number;
}

export interface TableSet extends UserData {
  readonly name: string;
  /** Type, flags and what each element does, one line each as in nft(8). */
  readonly properties: readonly string[];
  /** Ascending; undefined if it is no set of ranges of addresses. */
  readonly ranges: readonly CountedRange[] | undefined;
  /** Whether it holds more than ranges: an element for all other addresses, or one with a time limit. */
  readonly hasOthers?: boolean;
  /** Whether it is a part of a rule, with which it goes. */
  readonly isAnonymous?: boolean;
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
  readonly expressions: readonly Expression[];
  /** What the agent knows of it; undefined if it is not one of its rules. */
  readonly own?: Pick<OwnRule, 'text' | 'effect'> | undefined;
  /** Undefined if it does not count, or is only meant. */
  readonly packets?: bigint | undefined;
}

/** NFT_TABLE_F_… in linux/netfilter/nf_tables.h. */
const TABLE_FLAGS = { dormant: 1, owner: 2, persist: 4 } as const;
/** NFT_SET_…. */
const [ANONYMOUS, INTERVAL, MAP, OBJECT] = [1, 4, 8, 0x40];

type ReadElements = Pick<Elements, 'ranges' | 'catchAll' | 'hasOthers'>;

interface ReadObjects {
  readonly sets: readonly (SetReply & { readonly elements: ReadElements | undefined })[];
  readonly chains: readonly (ChainReply & { readonly rules: readonly RuleReply[] })[];
  readonly objects: readonly ObjectReply[];
}

/** What the kernel sends for a table, as a value. */
export function tableOf(
  family: Family,
  options: PortOptions,
  table: TableReply,
  { sets, chains, objects }: ReadObjects,
): Table {
  const { flags, owner } = table;
  const counted = sets.length + chains.length + objects.length;
  const maps = sets.filter((set) => isMap(set) && !isAnonymous(set)).length;
  const parts = chains.filter((chain) => chain.isBound).length;
  const all = chains.flatMap(({ rules }) => rules.map(({ expressions }) => expressions));
  const recognise = recogniser(family, all, options);
  return {
    family,
    ...userData(table),
    flags: names(TABLE_FLAGS, flags),
    ...(owner !== undefined && { owner }),
    sets: sets.map((set) => setOf(family, set)).toSorted(byName),
    chains: chains
      .map(({ name, hook, rules, ...chain }) => {
        const read = rules.map(({ expressions, packets, ...rule }) => {
          return { ...userData(rule), expressions, own: recognise(expressions), packets };
        });
        return { ...userData(chain), name, hook, rules: read };
      })
      .toSorted(byName),
    objects,
    // What the kernel counts and nobody listed; and of what is listed, maps, whose elements can lead to chains, and chains in rules.
    others: table.use - counted + maps + parts,
  };
}

function setOf(family: Family, set: SetReply & { readonly elements: ReadElements | undefined }): TableSet {
  const { name, elements, size } = set;
  const isOfAddresses = set.keyType === KEY_TYPE[family] && set.keyBytes === NFPROTO[family].bytes;
  return {
    ...userData(set),
    name,
    properties: [
      `type ${isOfAddresses ? NFT_FAMILY[family].type : set.keyType}`,
      `flags ${set.flags === INTERVAL ? 'interval' : set.flags}`,
      ...(size === undefined ? [] : [`size ${size}`]),
      ...set.expressions.map(statefulText),
    ],
    ranges: elements?.ranges,
    isAnonymous: isAnonymous(set),
    ...((elements?.catchAll || elements?.hasOthers) && { hasOthers: true }),
  };
}

function isAnonymous({ flags }: SetReply): boolean {
  return (flags & ANONYMOUS) !== 0;
}

function isMap({ flags }: SetReply): boolean {
  return (flags & (MAP | OBJECT)) !== 0;
}

function statefulText(expression: Expression): string {
  return expression.name === 'unknown' ? `${expression.type} ${expression.bytes}` : expression.name;
}

function userData({ comment, extra }: UserData): UserData {
  return { ...(comment !== undefined && { comment }), ...(extra !== undefined && { extra }) };
}

function names(flags: Readonly<Record<string, number>>, value: number): readonly string[] {
  return Object.entries(flags).flatMap(([name, bit]) => ((value & bit) === 0 ? [] : [name]));
}

/** By name, in the order of bytes. */
function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** A rule as nft(8) writes it, without counts; one that is not the agent's with all that the kernel sends for it. */
export function ruleText({ own, expressions, ...rule }: TableRule): string {
  // Other programs choose the names of chains and sets.
  return printable([own?.text ?? rawText(expressions), ...userDataLines(rule)].join(' '));
}

/** The properties that cannot be changed once the table is there. */
export function tableProperties(table: Table): readonly string[] {
  return [
    ...userDataLines(table),
    ...(table.flags.length === 0 ? [] : [`flags ${table.flags.join(',')}`]),
    ...(table.others === 0 ? [] : [`${table.others} others`]),
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
  return [
    ...tableProperties(table).map((one) => `table ${one}`),
    ...table.sets.toSorted(byName).map((set) => line(`set ${printable(set.name)}`, setProperties(set))),
    ...chainLines(table),
  ];
}

/** What packets meet, and what else stands in the table besides sets. */
export function chainLines({ chains, objects }: Table): readonly string[] {
  return [
    ...chains.flatMap((chain) => [chainLine(chain), ...chain.rules.map((rule) => `rule ${ruleText(rule)}`)]),
    ...objects.map(({ name }) => `object ${printable(name)}`),
  ];
}

export function chainLine(chain: TableChain): string {
  return line(`chain ${printable(chain.name)}`, chainProperties(chain));
}

function line(head: string, properties: readonly string[]): string {
  return `${head} ${properties.map((one) => one.replace(/;$/, '')).join('; ')}`;
}

/** The set for a purpose that a rule looks up or, without one, any for that purpose. */
export function setFor({ sets, chains }: Table, purpose: string): TableSet | undefined {
  const used = lookedUp(chains);
  const candidates = sets.filter(({ name }) => purposeOf(name) === purpose);
  return candidates.find(({ name }) => used.has(name)) ?? candidates[0];
}

/** The table without the sets that no rule looks up. */
export function withoutSpare(table: Table): Table {
  const used = lookedUp(table.chains);
  return { ...table, sets: table.sets.filter(({ name }) => used.has(name)) };
}

/** The names of the sets that rules look up. */
function lookedUp(chains: readonly TableChain[]): ReadonlySet<string> {
  const expressions = chains.flatMap(({ rules }) => rules.flatMap((rule) => rule.expressions));
  return new Set(expressions.flatMap((one) => (one.name === 'lookup' && one.set ? one.set : [])));
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

import { type Attribute, attributesIn, findIn, text, u64 } from './attributes.ts';

/** A part of a rule, or of an element (`nft_expr_attributes` in linux/netfilter/nf_tables.h). */
export interface Expression {
  /** Such as `counter`, `lookup`, or `match` for one of xtables. */
  readonly name: string;
  /** Its attributes have the meaning that the name says. */
  readonly data: Attribute | undefined;
}

/** What was counted since the rule or element was made. */
export interface Counter {
  readonly packets: bigint;
  readonly bytes: bigint;
}

const NFTA_LIST_ELEM = 1;
const NFTA_EXPR_NAME = 1;
const NFTA_EXPR_DATA = 2;
const NFTA_COUNTER_BYTES = 1;
const NFTA_COUNTER_PACKETS = 2;

/** The expressions in a list. */
export function expressionsIn(list: Attribute | undefined): readonly Expression[] {
  if (list === undefined) return [];
  return attributesIn(list)
    .filter(({ type }) => type === NFTA_LIST_ELEM)
    .map(expressionIn);
}

/** The expression in an attribute. */
export function expressionIn(attribute: Attribute): Expression {
  const parts = attributesIn(attribute);
  const part = (wanted: number) => parts.find(({ type }) => type === wanted);
  return { name: text(part(NFTA_EXPR_NAME)), data: part(NFTA_EXPR_DATA) };
}

/** What the first of the expressions that counts has counted. */
export function counterIn(expressions: readonly Expression[]): Counter | undefined {
  const counter = expressions.find(({ name }) => name === 'counter');
  if (counter === undefined) return undefined;
  const packets = u64(findIn(counter.data, NFTA_COUNTER_PACKETS));
  const bytes = u64(findIn(counter.data, NFTA_COUNTER_BYTES));
  return packets === 0n && bytes === 0n ? ZERO : { packets, bytes };
}

/** One object for the many elements that no packet has met. */
const ZERO: Counter = { packets: 0n, bytes: 0n };

/**
 * Expressions whose data changes with packets. Those of xtables are not here: the kernel leaves out their private data
 * (`usersize` in linux/netfilter/x_tables.h).
 */
const CHANGING = ['counter', 'last', 'quota'];

/** Overwrites what changes with packets with zeros, so that what is left can be compared. */
export function blankChanging(expressions: readonly Expression[]): void {
  for (const { name, data } of expressions) {
    if (CHANGING.includes(name)) data?.buffer.fill(0, data.from, data.to);
  }
}

const NFTA_IMMEDIATE_DATA = 2;
const NFTA_DATA_VERDICT = 2;
const NFTA_VERDICT_CHAIN = 2;

/** The chain that an expression jumps or goes to. */
export function targetOf({ name, data }: Expression): string | undefined {
  if (name !== 'immediate') return undefined;
  const verdict = findIn(findIn(data, NFTA_IMMEDIATE_DATA), NFTA_DATA_VERDICT);
  const chain = findIn(verdict, NFTA_VERDICT_CHAIN);
  return chain === undefined ? undefined : text(chain);
}

/**
 * The comment in the user data: a list of parts, each with a byte for its type and a byte for its length, that the kernel
 * keeps as it is (libnftnl/udata.h). Other programs may keep something else there: then there is no comment.
 *
 * @param wanted the type of a comment, which is not the same for all kinds of things
 */
export function commentIn(data: Attribute | undefined, wanted = 0): string | undefined {
  if (data === undefined) return undefined;
  const { buffer, to } = data;
  for (let at = data.from; at + 2 <= to; ) {
    const [type, length] = [buffer.readUInt8(at), buffer.readUInt8(at + 1)];
    const end = at + 2 + length;
    if (end > to) return undefined;
    if (type === wanted) return buffer.toString('utf8', at + 2, end).replace(/\0$/, '');
    at = end;
  }
  return undefined;
}

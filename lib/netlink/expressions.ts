import { attributesIn, text, unsigned } from './messages.ts';

/** A part of a rule, or of an element (`nft_expr_attributes` in linux/netfilter/nf_tables.h). */
export interface Expression {
  /** Such as `counter`, `lookup`, or `match` for one of xtables. */
  readonly name: string;
  /** Its attributes have the meaning that the name says. */
  readonly data: Buffer | undefined;
}

/** What was counted since the rule or element was made. */
export interface Counter {
  readonly packets: bigint;
  readonly bytes: bigint;
}

const NFTA_EXPR_NAME = 1;
const NFTA_EXPR_DATA = 2;
const NFTA_COUNTER_BYTES = 1;
const NFTA_COUNTER_PACKETS = 2;

/** The expression in a payload. */
export function expressionIn(payload: Buffer): Expression {
  const parts = attributesIn(payload);
  return { name: text(parts.get(NFTA_EXPR_NAME)), data: parts.get(NFTA_EXPR_DATA) };
}

/** What the first of the expressions that counts has counted. */
export function counterIn(expressions: readonly Expression[]): Counter | undefined {
  const counter = expressions.find(({ name }) => name === 'counter');
  if (counter === undefined) return undefined;
  const parts = attributesIn(counter.data);
  const packets = unsigned(parts.get(NFTA_COUNTER_PACKETS), 8);
  return { packets, bytes: unsigned(parts.get(NFTA_COUNTER_BYTES), 8) };
}

const NFTA_IMMEDIATE_DATA = 2;
const NFTA_DATA_VERDICT = 2;
const NFTA_VERDICT_CHAIN = 2;

/** The chain that an expression jumps or goes to. */
export function targetOf({ name, data }: Expression): string | undefined {
  if (name !== 'immediate') return undefined;
  const verdict = attributesIn(attributesIn(data).get(NFTA_IMMEDIATE_DATA)).get(NFTA_DATA_VERDICT);
  const chain = attributesIn(verdict).get(NFTA_VERDICT_CHAIN);
  return chain && text(chain);
}

/**
 * Expressions whose data changes with packets. Those of xtables are not here: the kernel leaves out their private data
 * (`usersize` in linux/netfilter/x_tables.h).
 */
export const CHANGING = ['counter', 'last', 'quota'];

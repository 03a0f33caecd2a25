import { attributesIn, find, type Span, text, unsigned } from './messages.ts';

/** A part of a rule, or of an element. Its name, such as `counter`, says what the attributes in its data mean. */
interface Expression {
  readonly name: string;
  readonly data: Span | undefined;
}

/** What was counted since the rule or element was made. */
export interface Counter {
  readonly packets: bigint;
  readonly bytes: bigint;
}

/** Numbers of attributes in linux/netfilter/nf_tables.h. */
const NFTA_EXPR = { name: 1, data: 2 } as const;
const NFTA_COUNTER = { bytes: 1, packets: 2 } as const;
const NFTA_IMMEDIATE_DATA = 2;
const NFTA_DATA_VERDICT = 2;
const NFTA_VERDICT_CHAIN = 2;

/** The expression in a payload. */
export function expressionIn(payload: Span): Expression {
  const parts = attributesIn(payload);
  return { name: text(find(parts, NFTA_EXPR.name)), data: find(parts, NFTA_EXPR.data) };
}

/** What the first of the expressions that counts has counted. */
export function counterIn(expressions: readonly Expression[]): Counter | undefined {
  const counter = expressions.find(({ name }) => name === 'counter');
  if (counter === undefined) return undefined;
  const parts = attributesIn(counter.data);
  const packets = unsigned(find(parts, NFTA_COUNTER.packets), 8);
  return { packets, bytes: unsigned(find(parts, NFTA_COUNTER.bytes), 8) };
}

/** The chain that an expression jumps or goes to. */
export function targetOf({ name, data }: Expression): string | undefined {
  if (name !== 'immediate') return undefined;
  const verdict = find(attributesIn(find(attributesIn(data), NFTA_IMMEDIATE_DATA)), NFTA_DATA_VERDICT);
  const chain = find(attributesIn(verdict), NFTA_VERDICT_CHAIN);
  return chain && text(chain);
}

/**
 * Expressions whose data changes with packets. Those of xtables are not here: the kernel leaves out their private data
 * (`usersize` in linux/netfilter/x_tables.h).
 */
export const CHANGING = ['counter', 'last', 'quota'];

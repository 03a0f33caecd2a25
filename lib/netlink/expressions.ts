import { attributesIn, find, type Span, text, unsigned } from './messages.ts';

/** A part of a rule, or of an element. Its name, such as `counter`, says what the attributes in its data mean. */
interface Expression {
  readonly name: string;
  readonly data: Span | undefined;
}

/** Numbers of attributes in linux/netfilter/nf_tables.h. */
const NFTA_EXPR = { name: 1, data: 2 } as const;
const NFTA_COUNTER_PACKETS = 2;
const NFTA_IMMEDIATE_DATA = 2;
const NFTA_DATA_VERDICT = 2;
const NFTA_VERDICT_CHAIN = 2;

export function expressionIn(payload: Span): Expression {
  const parts = attributesIn(payload);
  return { name: text(find(parts, NFTA_EXPR.name)), data: find(parts, NFTA_EXPR.data) };
}

/** The packets that the first of the expressions that counts has counted since the rule or element was made. */
export function packetsIn(expressions: readonly Expression[]): bigint | undefined {
  const counter = expressions.find(({ name }) => name === 'counter');
  return counter && unsigned(find(attributesIn(counter.data), NFTA_COUNTER_PACKETS), 8);
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

import {
  attribute,
  attributesIn,
  bigUint,
  bytesOf,
  find,
  isText,
  nameBytes,
  type Span,
  text,
  uint,
} from './messages.ts';

/** What an attribute of an expression holds. `value` and `verdict` are the two kinds of `struct nft_data`. */
interface Values {
  readonly u32: number;
  readonly u64: bigint;
  readonly text: string;
  /** Bytes of a packet, as hexadecimal digits. */
  readonly value: string;
  readonly verdict: VerdictData;
  /** Private data of an extension of iptables, as hexadecimal digits. */
  readonly bytes: string;
}

/** What becomes of a packet: a positive code is netfilter's (NF_ACCEPT), a negative one of nf_tables (NFT_RETURN). */
interface VerdictData {
  readonly code: number;
  readonly chain?: string | undefined;
}

type Field = readonly [type: number, kind: keyof Values];

/**
 * The attributes of expressions in linux/netfilter/nf_tables.h: NFTA_CMP_SREG and so on. `from` and `to` are registers. All
 * other expressions, and those with other attributes, are kept as their bytes.
 */
const LAYOUTS = {
  bitwise: {
    from: [1, 'u32'],
    to: [2, 'u32'],
    length: [3, 'u32'],
    mask: [4, 'value'],
    xor: [5, 'value'],
    operation: [6, 'u32'],
  },
  byteorder: {
    from: [1, 'u32'],
    to: [2, 'u32'],
    operation: [3, 'u32'],
    length: [4, 'u32'],
    size: [5, 'u32'],
  },
  cmp: { from: [1, 'u32'], operation: [2, 'u32'], value: [3, 'value'] },
  counter: { bytes: [1, 'u64'], packets: [2, 'u64'] },
  ct: { to: [1, 'u32'], key: [2, 'u32'], from: [4, 'u32'] },
  fib: { to: [1, 'u32'], result: [2, 'u32'], flags: [3, 'u32'] },
  immediate: { to: [1, 'u32'], value: [2, 'value'], verdict: [2, 'verdict'] },
  lookup: { set: [1, 'text'], from: [2, 'u32'], to: [3, 'u32'], id: [4, 'u32'], flags: [5, 'u32'] },
  match: { extension: [1, 'text'], revision: [2, 'u32'], info: [3, 'bytes'] },
  masq: { flags: [1, 'u32'], fromPort: [2, 'u32'], toPort: [3, 'u32'] },
  meta: { to: [1, 'u32'], key: [2, 'u32'], from: [3, 'u32'] },
  nat: {
    type: [1, 'u32'],
    family: [2, 'u32'],
    fromAddress: [3, 'u32'],
    toAddress: [4, 'u32'],
    fromPort: [5, 'u32'],
    toPort: [6, 'u32'],
    flags: [7, 'u32'],
  },
  numgen: { to: [1, 'u32'], modulus: [2, 'u32'], type: [3, 'u32'], offset: [4, 'u32'] },
  payload: {
    to: [1, 'u32'],
    base: [2, 'u32'],
    offset: [3, 'u32'],
    length: [4, 'u32'],
  },
  target: { extension: [1, 'text'], revision: [2, 'u32'], info: [3, 'bytes'] },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Field>>>>;

type Layouts = typeof LAYOUTS;
type Known = keyof Layouts;

/** An expression whose attributes are all known; absent attributes have the kernel's defaults. */
export type KnownExpression = {
  [Name in Known]: { readonly name: Name } & {
    readonly [Key in keyof Layouts[Name]]?: Layouts[Name][Key] extends readonly [number, infer Kind]
      ? Values[Kind & keyof Values] | undefined
      : never;
  };
}[Known];

/** A part of a rule, or of the elements of a set. */
export type Expression =
  | KnownExpression
  /** `type` is the kernel's name of it, `bytes` are all its attributes as hexadecimal digits. */
  | { readonly name: 'unknown'; readonly type: string; readonly bytes: string };

/** NFTA_EXPR_NAME and so on. */
const NFTA_EXPR = { name: 1, data: 2 } as const;
const NFTA_LIST_ELEM = 1;
const NFTA_DATA = { value: 1, verdict: 2 } as const;
const NFTA_VERDICT = { code: 1, chain: 2 } as const;
/** NFTA_COUNTER_PAD, the only padding among the attributes above. */
const PADDING: Readonly<Record<string, number>> = { counter: 3 };

const READ: { readonly [Kind in keyof Values]: (payload: Span) => Values[Kind] | undefined } = {
  u32: (payload) => uint(payload),
  u64: (payload) => bigUint(payload, 8),
  text,
  value: (payload) => {
    const value = find(payload, NFTA_DATA.value);
    return value && hex(value);
  },
  verdict: (payload) => {
    const verdict = find(payload, NFTA_DATA.verdict);
    if (verdict === undefined) return undefined;
    const chain = find(verdict, NFTA_VERDICT.chain);
    return { code: uint(find(verdict, NFTA_VERDICT.code)) | 0, ...(chain && { chain: text(chain) }) };
  },
  bytes: hex,
};

const WRITE: {
  readonly [Kind in keyof Values]: (value: Values[Kind]) => Buffer | string | readonly Buffer[];
} = {
  u32: (value) => bytesOf(value, 4),
  u64: (value) => bytesOf(value, 8),
  text: (value) => value,
  value: (value) => [attribute(NFTA_DATA.value, Buffer.from(value, 'hex'))],
  verdict: ({ code, chain }) => [
    attribute(NFTA_DATA.verdict, [
      attribute(NFTA_VERDICT.code, bytesOf(code >>> 0, 4)),
      ...(chain === undefined ? [] : [attribute(NFTA_VERDICT.chain, chain)]),
    ]),
  ],
  bytes: (value) => Buffer.from(value, 'hex'),
};

/** A node has thousands of rules. */
const FIELDS: ReadonlyMap<string, readonly (readonly [key: string, Field])[]> = new Map(
  Object.entries(LAYOUTS).map(([name, layout]) => [name, Object.entries(layout)]),
);

/** Reads NFTA_LIST_ELEM of the expressions of a rule, or NFTA_SET_ELEM_EXPR. */
export function readExpression(payload: Span): Expression {
  const name = text(find(payload, NFTA_EXPR.name));
  const data = find(payload, NFTA_EXPR.data);
  const fields = FIELDS.get(name);
  const isRead = ({ type }: { readonly type: number }) =>
    type === PADDING[name] || fields?.some(([, [known]]) => known === type);
  if (fields === undefined || !attributesIn(data).every(isRead)) {
    return { name: 'unknown', type: name, bytes: data === undefined ? '' : hex(data) };
  }
  const values: Record<string, unknown> = { name };
  for (const [key, [type, kind]] of fields) {
    const found = find(data, type);
    const value = found && READ[kind](found);
    if (value !== undefined) values[key] = value;
  }
  return values as unknown as KnownExpression;
}

/** The expressions in NFTA_RULE_EXPRESSIONS. */
export function readExpressions(list: Span | undefined): readonly Expression[] {
  return attributesIn(list).map(readExpression);
}

/** NFTA_LIST_ELEM with an expression; `type` is another attribute that holds one. */
export function writeExpression(expression: KnownExpression, type = NFTA_LIST_ELEM): Buffer {
  const { name, ...values } = expression;
  const layout: Readonly<Record<string, Field>> = LAYOUTS[name];
  const data = Object.entries(values).flatMap(([key, value]) => {
    const [attributeType, kind] = layout[key] ?? [];
    if (attributeType === undefined || kind === undefined || value === undefined) return [];
    const write = WRITE[kind] as (value: unknown) => Buffer | string | readonly Buffer[];
    return [attribute(attributeType, write(value))];
  });
  return attribute(type, [attribute(NFTA_EXPR.name, name), attribute(NFTA_EXPR.data, data)]);
}

const COUNTER = nameBytes('counter');

/** The packets of an expression that counts, in place of the whole expression: a set can have 100,000. Undefined for any other. */
export function countedBy(expression: Span): bigint | undefined {
  if (!isText(find(expression, NFTA_EXPR.name), COUNTER)) return undefined;
  return bigUint(find(find(expression, NFTA_EXPR.data), LAYOUTS.counter.packets[0]), 8);
}

/** The packets that the first of the expressions that counts has counted since the rule or element was made. */
export function packetsIn(expressions: readonly Expression[]): bigint | undefined {
  return expressions.find((one) => one.name === 'counter')?.packets;
}

function hex({ bytes, start, end }: Span): string {
  return bytes.toString('hex', start, end);
}

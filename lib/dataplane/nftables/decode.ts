import type { Family } from '../../cidr/address.ts';
import { hostBitsOf, type Range } from '../../cidr/ranges.ts';
import type { Expression, KnownExpression } from '../../netlink/expressions.ts';
import { NFPROTO } from '../../netlink/messages.ts';
import { CMP, HOST_TO_NETWORK, NFT_LOOKUP_F_INV, NUMGEN_RANDOM, PORTS, VERDICT_REGISTER } from './parts.ts';
import { KEYS, type MatchKey, type Statement, VERDICTS, type VerdictName } from './statement.ts';

interface KeyValue {
  readonly kind: 'key';
  readonly key: MatchKey;
  /** How many bytes are loaded. */
  readonly bytes: number;
  readonly mask?: string | undefined;
}

/** What a register holds, and the expressions that have put it there. */
interface Held {
  readonly by: readonly Expression[];
  /** Undefined if it is not understood. */
  readonly value:
    | KeyValue
    | { readonly kind: 'random'; readonly modulus: number; readonly isNetwork: boolean }
    | { readonly kind: 'bytes'; readonly bytes: string }
    /** What a map has for a key. */
    | { readonly kind: 'text'; readonly text: string }
    | undefined;
  /** Whether a statement has used it. */
  isUsed: boolean;
}

/**
 * The statements of a rule: what each expression does with what those before it have put into registers. An expression that is
 * not understood becomes a statement of its own, with all its bytes: nothing is left out but counts.
 */
export function decode(family: Family, expressions: readonly Expression[]): readonly Statement[] {
  const registers = new Map<number, Held>();
  const statements: Statement[] = [];
  const unused = (held: Held | undefined): void => {
    if (held !== undefined && !held.isUsed) statements.push(other(held.by));
  };
  const put = (register: number, held: Omit<Held, 'isUsed'>): void => {
    unused(registers.get(register));
    registers.set(register, { ...held, isUsed: false });
  };
  const take = (register: number | undefined): Held | undefined => {
    const held = register === undefined ? undefined : registers.get(register);
    if (held !== undefined) held.isUsed = true;
    return held;
  };
  /** A register, and those that are filled behind it and not used yet: a key of several parts. */
  const takeAll = (register: number | undefined): readonly Held[] => {
    const first = take(register);
    if (first === undefined) return [];
    const more = [...registers].filter(([other, held]) => other > (register ?? 0) && !held.isUsed);
    return [first, ...more.flatMap(([other]) => take(other) ?? [])];
  };
  for (const expression of expressions) {
    const step =
      expression.name === 'lookup'
        ? readLookup(expression, takeAll(expression.from))
        : read(family, expression, take);
    if ('register' in step) put(step.register, step);
    else add(statements, step.statement);
  }
  for (const held of registers.values()) unused(held);
  return statements;
}

type Step = { readonly statement: Statement } | ({ readonly register: number } & Omit<Held, 'isUsed'>);
type Take = (register: number | undefined) => Held | undefined;

function read(family: Family, expression: Expression, take: Take): Step {
  switch (expression.name) {
    case 'bitwise':
    case 'byteorder': {
      const held = take(expression.from);
      if (expression.to === undefined || held === undefined) break;
      const value = transformed(held.value, expression);
      return { register: expression.to, by: [...held.by, expression], value };
    }
    case 'cmp':
    case 'range': {
      const held = take(expression.from);
      return { statement: matchOf(held?.value, expression) ?? other([...(held?.by ?? []), expression]) };
    }
    case 'counter':
      return { statement: { kind: 'counter' } };
    case 'payload':
    case 'meta':
    case 'ct': {
      if (expression.from === undefined) break;
      const held = take(expression.from);
      return {
        statement: writingOf(family, expression, held?.value) ?? other([...(held?.by ?? []), expression]),
      };
    }
    case 'masq':
    case 'nat':
      return { statement: readTranslation(family, expression, take) };
    case 'immediate':
      if (expression.verdict !== undefined) return { statement: verdictOf(expression) };
      break;
  }
  const value = loaded(family, expression);
  const isLoad = expression.name !== 'unknown' && 'to' in expression && expression.to !== undefined;
  const isSet = 'from' in expression && expression.from !== undefined;
  const given = isSet ? (take(expression.from)?.by ?? []) : [];
  if (!isLoad || isSet) return { statement: other([...given, expression]) };
  return { register: expression.to, by: [expression], value };
}

/** What a rule writes; undefined if that is not understood. */
function writingOf(family: Family, expression: Expression, value: Held['value']): Statement | undefined {
  const key = wholeKey(keyIn(family, expression));
  if (key === undefined) return undefined;
  const written = (text: string): Statement => ({ kind: 'set', key, value: text });
  const { bytes, order, write } = KEYS[key];
  switch (value?.kind) {
    case 'bytes': {
      const number = numberIn(order, value.bytes);
      return value.bytes.length === 2 * bytes ? written(write({ first: number, last: number })) : undefined;
    }
    case 'text':
      return written(value.text);
    case 'key': {
      const [whole, mask] = [wholeKey({ ...value, mask: undefined }), value.mask];
      if (whole === undefined || mask === undefined) return whole && written(whole);
      const bits = numberIn(KEYS[whole].order, mask);
      return written(`${whole} & ${KEYS[whole].write({ first: bits, last: bits })}`);
    }
    default:
      return undefined;
  }
}

function readTranslation(
  family: Family,
  expression: Extract<KnownExpression, { name: 'masq' | 'nat' }>,
  take: Take,
): Statement {
  const { fromAddress, toAddress } = expression.name === 'nat' ? expression : {};
  const held = [fromAddress, toAddress, expression.fromPort, expression.toPort].map(take);
  const [address, lastAddress, port, lastPort] = held;
  const by = new Set(held.flatMap((one) => one?.by ?? []));
  const to =
    address?.value?.kind === 'text'
      ? address.value.text
      : rangeIn(NFPROTO[family].bytes, address, lastAddress);
  return translationOf(family, expression, to, rangeIn(2, port, lastPort)) ?? other([...by, expression]);
}

/** A set, a verdict map, or a map whose value goes to a register. */
function readLookup(expression: Extract<KnownExpression, { name: 'lookup' }>, parts: readonly Held[]): Step {
  const { set, to, flags = 0 } = expression;
  const by = [...parts.flatMap((part) => part.by), expression];
  if (set === undefined || parts.length === 0) return { statement: other(by) };
  const isNot = (flags & NFT_LOOKUP_F_INV) !== 0;
  const keys = parts.map(({ value }) => wholeKey(value));
  const keyText = parts.map((part, index) => keys[index] ?? part.by.map(rawText).join(' ')).join(' . ');
  const [key] = keys.length === 1 ? keys : [];
  if (to === VERDICT_REGISTER) return { statement: { kind: 'vmap', key, keyText, map: set } };
  if (to !== undefined) return { register: to, by, value: { kind: 'text', text: `${keyText} map @${set}` } };
  if (key !== undefined) return { statement: { kind: 'match', key, set, ...(isNot && { isNot }) } };
  return { statement: { ...other(by), text: `${keyText} ${isNot ? '!= ' : ''}@${set}` } };
}

/** The key whose value it is, if that is whole. */
function wholeKey(value: Held['value']): MatchKey | undefined {
  const isWhole = value?.kind === 'key' && value.mask === undefined && value.bytes === KEYS[value.key].bytes;
  return isWhole ? value.key : undefined;
}

/** Two comparisons of a key, one with the lowest and one with the highest value, are a range: so nft(8) before 1.1 writes it. */
function add(statements: Statement[], statement: Statement): void {
  const before = statements.at(-1);
  const range = before && rangeOf(before, statement);
  if (range === undefined) statements.push(statement);
  else statements[statements.length - 1] = range;
}

function rangeOf(low: Statement, high: Statement): Statement | undefined {
  if (low.kind !== 'match' || high.kind !== 'match' || low.key !== high.key) return undefined;
  if (!('range' in low && 'range' in high) || low.isNot || high.isNot) return undefined;
  const isPair = low.range.last === highestOf(low.key) && high.range.first === 0n;
  if (!isPair || low.range.first > high.range.last) return undefined;
  return { ...low, range: { first: low.range.first, last: high.range.last } };
}

function highestOf(key: MatchKey): bigint {
  return (1n << BigInt(8 * KEYS[key].bytes)) - 1n;
}

/** What an expression loads; undefined if that is not understood. */
function loaded(family: Family, expression: Expression): Held['value'] {
  switch (expression.name) {
    case 'numgen': {
      const { modulus, type, offset = 0 } = expression;
      const isRandom = type === NUMGEN_RANDOM && offset === 0 && modulus !== undefined;
      return isRandom ? { kind: 'random', modulus, isNetwork: false } : undefined;
    }
    case 'immediate':
      return expression.value === undefined ? undefined : { kind: 'bytes', bytes: expression.value };
    default:
      return keyIn(family, expression);
  }
}

const BY_LOAD: ReadonlyMap<string, MatchKey> = new Map(
  Object.entries(KEYS).map(([key, { load }]) => [loadText(load), key as MatchKey]),
);
const ADDRESS_BYTES = 4;

function keyIn(family: Family, expression: Expression): Held['value'] {
  const key = BY_LOAD.get(loadText(expression));
  if (key === undefined || isOfOther(family, key)) return undefined;
  const { bytes } = KEYS[key];
  const length = expression.name === 'payload' ? expression.length : bytes;
  // Of a shorter value, nft(8) makes another key: the type of ICMP is where a port is.
  const isPrefix = length !== undefined && bytes >= ADDRESS_BYTES && length < bytes;
  return length === bytes || isPrefix ? { kind: 'key', key, bytes: length } : undefined;
}

/** Equal for expressions that load the same. */
function loadText(one: Expression | (typeof KEYS)[MatchKey]['load']): string {
  switch (one.name) {
    case 'payload':
      return `payload ${one.base} ${one.offset}`;
    case 'fib':
      return `fib ${one.result} ${one.flags}`;
    case 'meta':
    case 'ct':
      return `${one.name} ${one.key}`;
    default:
      return '';
  }
}

/** Whether the key is a part of the other family's header. */
function isOfOther(family: Family, key: string): boolean {
  return key.startsWith(family === 'IPv4' ? 'ip6 ' : 'ip ');
}

function transformed(
  value: Held['value'],
  expression: Extract<KnownExpression, { name: 'bitwise' | 'byteorder' }>,
): Held['value'] {
  if (expression.name === 'byteorder') {
    const { operation, length, size } = expression;
    const isWhole = operation === HOST_TO_NETWORK && length === 4 && size === 4;
    return isWhole && value?.kind === 'random' && !value.isNetwork
      ? { ...value, isNetwork: true }
      : undefined;
  }
  const { operation = 0, mask, xor = '' } = expression;
  if (operation !== 0 || mask === undefined || value?.kind !== 'key' || value.mask !== undefined)
    return undefined;
  return /^0*$/.test(xor) ? { ...value, mask } : changedText(value.key, mask, xor);
}

/** What nft(8) prints for some bits that are set, or turned over. */
function changedText(key: MatchKey, maskDigits: string, xorDigits: string): Held['value'] {
  const { bytes, order, write } = KEYS[key];
  if (maskDigits.length !== 2 * bytes || xorDigits.length !== 2 * bytes) return undefined;
  const [mask, xor] = [numberIn(order, maskDigits), numberIn(order, xorDigits)];
  const all = (1n << BigInt(8 * bytes)) - 1n;
  const value = (one: bigint) => write({ first: one, last: one });
  if (mask === all) return { kind: 'text', text: `${key} ^ ${value(xor)}` };
  const kept = mask | xor;
  const masked = kept === all ? key : `${key} & ${value(kept)}`;
  return (mask & xor) === 0n ? { kind: 'text', text: `${masked} | ${value(xor)}` } : undefined;
}

/** What a comparison asks; undefined if it is not understood. */
function matchOf(
  value: Held['value'],
  expression: Extract<KnownExpression, { name: 'cmp' | 'range' }>,
): Statement | undefined {
  if (value?.kind === 'random') {
    if (expression.name !== 'cmp' || expression.operation !== CMP.lt || !value.isNetwork) return undefined;
    return { kind: 'chance', size: Number(numberOf(expression.value ?? '')), left: value.modulus };
  }
  if (value?.kind !== 'key') return undefined;
  if (expression.name === 'range') {
    const { operation, first = '', last = '' } = expression;
    const key = wholeKey(value);
    if (key === undefined || KEYS[key].order === 'host') return undefined;
    const range = { first: numberOf(first), last: numberOf(last) };
    return { kind: 'match', key, range, ...(operation === 1 && { isNot: true }) };
  }
  return comparison(value, expression.value ?? '', expression.operation);
}

/** A value, a prefix, what is lower or higher, or the value of some bits. */
function comparison(
  { key, bytes, mask }: KeyValue,
  compared: string,
  operation: number | undefined,
): Statement | undefined {
  const { bytes: all, order } = KEYS[key];
  const length = compared.length / 2;
  // A name of interfaces that ends with a star is compared up to there.
  if (length === 0 || length > bytes || (length < bytes && order === 'host')) return undefined;
  if (mask !== undefined && (length !== all || mask.length !== compared.length)) return undefined;
  const rest = BigInt(8 * (all - length));
  const first = numberIn(order, compared) << rest;
  const bits = mask === undefined ? (highestOf(key) >> rest) << rest : numberIn(order, mask);
  const range = { first, last: first + highestOf(key) - bits };
  if (operation === CMP.eq || operation === CMP.neq) {
    const isRange = mask === undefined || (order === 'network' && hostBitsOf(range) !== undefined);
    const asked = isRange ? { range } : { mask: bits, value: first };
    return { kind: 'match', key, ...asked, ...(operation === CMP.neq && { isNot: true }) };
  }
  if (order === 'host' || mask !== undefined) return undefined;
  const compare = rangesOf(range, highestOf(key))[operation ?? -1];
  return compare === undefined || compare.first > compare.last
    ? undefined
    : { kind: 'match', key, range: compare };
}

function rangesOf({ first, last }: Range, highest: bigint): Readonly<Record<number, Range>> {
  return {
    [CMP.lt]: { first: 0n, last: first - 1n },
    [CMP.lte]: { first: 0n, last },
    [CMP.gt]: { first: last + 1n, last: highest },
    [CMP.gte]: { first, last: highest },
  };
}

function verdictOf(expression: Extract<KnownExpression, { name: 'immediate' }>): Statement {
  const { code, chain } = expression.verdict ?? { code: Number.NaN };
  const verdict = Object.entries(VERDICTS).find(([, known]) => known === code)?.[0];
  if (expression.to !== VERDICT_REGISTER || verdict === undefined) return other([expression]);
  return { kind: 'verdict', verdict: verdict as VerdictName, ...(chain !== undefined && { chain }) };
}

/** NF_NAT_RANGE_MAP_IPS, which the kernel adds if there are addresses. */
const ADDRESSES = 0x1;

function translationOf(
  family: Family,
  expression: Extract<KnownExpression, { name: 'masq' | 'nat' }>,
  address: Range | string | undefined,
  ports: Range | 'none' | undefined,
): Statement | undefined {
  if (address === undefined || ports === undefined) return undefined;
  const { flags: all = 0 } = expression;
  // What is not used: another rule than the one that it looks like.
  if ((ports === 'none') === ((all & PORTS) !== 0)) return undefined;
  const flags = all & ~(ADDRESSES | PORTS);
  const isSnat =
    expression.name === 'nat' && expression.type === 0 && expression.family === NFPROTO[family].protocol;
  if (expression.name === 'nat' && (!isSnat || address === 'none')) return undefined;
  return {
    kind: expression.name === 'masq' ? 'masquerade' : 'snat',
    ...(address !== 'none' && { address }),
    ...(ports !== 'none' && { ports: { first: Number(ports.first), last: Number(ports.last) } }),
    flags,
  };
}

/** From one register to the other; undefined if one of them holds anything but bytes. */
function rangeIn(bytes: number, from: Held | undefined, to: Held | undefined): Range | 'none' | undefined {
  if (from === undefined) return to === undefined ? 'none' : undefined;
  const [first, last] = [from.value, (to ?? from).value];
  if (first?.kind !== 'bytes' || last?.kind !== 'bytes') return undefined;
  if (first.bytes.length !== 2 * bytes || last.bytes.length !== 2 * bytes) return undefined;
  return { first: numberOf(first.bytes), last: numberOf(last.bytes) };
}

function numberIn(order: 'network' | 'host', digits: string): bigint {
  return numberOf(order === 'network' ? digits : Buffer.from(digits, 'hex').reverse().toString('hex'));
}

function numberOf(digits: string): bigint {
  return BigInt(`0x${digits || '0'}`);
}

/** Expressions behind which a packet goes on, whatever they do with it, if what they get from registers is no match. */
const PASSING = ['log', 'meta', 'ct', 'notrack', 'objref', 'dynset', 'dup', 'last'];

function other(expressions: readonly Expression[]): Extract<Statement, { readonly kind: 'other' }> {
  const last = expressions.at(-1);
  const passes = last !== undefined && PASSING.includes(last.name === 'unknown' ? last.type : last.name);
  return { kind: 'other', text: expressions.map(rawText).join(' '), passes, last };
}

/** All that the kernel sends for an expression. */
function rawText(expression: Expression): string {
  const { name, ...values } = expression;
  const parts = Object.entries(values).map(
    ([key, value]) => `${key} ${typeof value === 'object' ? JSON.stringify(value) : value}`,
  );
  return `[${[name, ...parts].join(' ')}]`;
}

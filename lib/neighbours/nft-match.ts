import { ADDRESS_BITS, type Family, parseAddress } from '../cidr/address.ts';
import { truncate } from '../cidr/prefix.ts';
import { complement, type Range, type RangeSet, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { ALWAYS, markTest, NEVER, otherCondition, steadyCondition, type Test } from './condition.ts';
import {
  elementValue,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  nameAndBody,
  objectAt,
  textAt,
} from './nft-json.ts';
import { statementText } from './nft-text.ts';

/** The elements of the named sets and maps of a table. */
export type NamedElements = ReadonlyMap<string, readonly Json[]>;

/** The names of the families in nft(8): in payloads, and as nfproto. */
const PROTOCOLS: Readonly<Record<string, Family>> = { ip: 'IPv4', ip6: 'IPv6', ipv4: 'IPv4', ipv6: 'IPv6' };

/** Reads a match for packets of one family. */
export function readMatch(family: Family, statement: Json, named: NamedElements): Test {
  const match = objectAt(statement, 'match');
  const op = match?.['op'];
  const text = statementText(statement);
  const other = isSteady(match) ? steadyCondition(text) : otherCondition(text);
  // Some versions write "in" for == of flags and sets.
  if (match === undefined || !['==', '!=', 'in'].includes(String(op))) return other;
  const is = op !== '!=';
  const { left, right } = match;
  const payload = objectAt(left, 'payload');
  const protocol = textAt(payload, 'protocol');
  if (isOfOther(family, protocol)) return NEVER;
  if (isOfFamily(family, protocol) && textAt(payload, 'field') === 'daddr') {
    const set = addressesOf(family, right, named);
    if (set === undefined) return other;
    return { kind: 'destinations', set: is ? set : complement(set) };
  }
  return (
    familyTest(family, left, right, is) ?? typeTest(left, right, is) ?? ownMark(left, right, is) ?? other
  );
}

/** The keys of `meta` that no rule changes. */
const STEADY_META = [
  'iif',
  'oif',
  'iifname',
  'oifname',
  'iiftype',
  'oiftype',
  'l4proto',
  'nfproto',
  'protocol',
];

/** Whether the match is steady, and its text is complete: long sets are cut off in it, named sets may change. */
function isSteady(match: JsonObject | undefined): boolean {
  const { left, op, right } = match ?? {};
  const payload = objectAt(left, 'payload');
  const field = textAt(payload, 'protocol') && textAt(payload, 'field');
  const isKept = field !== undefined || STEADY_META.includes(textAt(objectAt(left, 'meta'), 'key') ?? '');
  const isName = typeof right === 'string' && right.startsWith('@');
  const isValue =
    ['string', 'number'].includes(typeof right) || ['prefix', 'range'].includes(nameAndBody(right)[0]);
  return isKept && isValue && !isName && (op === '==' || op === '!=');
}

/** Whether the name that nft(8) has for a protocol or family is that of the family. */
function isOfFamily(family: Family, name: string | undefined): boolean {
  return name !== undefined && PROTOCOLS[name] === family;
}

/** Whether it is the name of the other family; in a table of family inet, such a rule never matches. */
export function isOfOther(family: Family, name: string | undefined): boolean {
  return name !== undefined && PROTOCOLS[name] !== undefined && PROTOCOLS[name] !== family;
}

/** The addresses in the right side of a match; undefined if it is not addresses. */
function addressesOf(family: Family, right: Json, named: NamedElements): RangeSet | undefined {
  const elements =
    typeof right === 'string' && right.startsWith('@')
      ? named.get(right.slice(1))
      : (listAt(right, 'set') ?? [right]);
  const ranges = elements?.map((element) => rangeOfElement(family, elementValue(element)));
  return ranges?.every((range) => range !== undefined) ? rangeSet(family, ranges) : undefined;
}

function rangeOfElement(family: Family, element: Json): Range | undefined {
  const [name, body] = nameAndBody(element);
  if (typeof element === 'string') return rangeBetween(family, element, element);
  if (name === 'range' && Array.isArray(body)) return rangeBetween(family, body[0], body[1]);
  if (name !== 'prefix' || !isObject(body)) return undefined;
  const first = addressOf(family, body['addr']);
  const length = body['len'];
  if (first === undefined || typeof length !== 'number' || length < 0 || length > ADDRESS_BITS[family])
    return undefined;
  return rangeOf({ family, address: truncate(first, length, family), length });
}

function rangeBetween(family: Family, from: Json, to: Json): Range | undefined {
  const [first, last] = [addressOf(family, from), addressOf(family, to)];
  return first === undefined || last === undefined || last < first ? undefined : { first, last };
}

function addressOf(family: Family, text: Json): bigint | undefined {
  const address = typeof text === 'string' ? parseAddress(text) : undefined;
  return address?.family === family ? address.value : undefined;
}

/** Reads `meta nfproto`, which tables of family inet use. */
function familyTest(family: Family, left: Json, right: Json, is: boolean): Test | undefined {
  const key = textAt(objectAt(left, 'meta'), 'key');
  const asked = typeof right === 'string' ? right : undefined;
  if (key !== 'nfproto' && key !== 'protocol') return undefined;
  if (isOfFamily(family, asked)) return is ? ALWAYS : NEVER;
  if (isOfOther(family, asked)) return is ? NEVER : ALWAYS;
  return undefined;
}

/** Reads `fib daddr type local`. The policy is only about destinations that are not local. */
function typeTest(left: Json, right: Json, is: boolean): Test | undefined {
  const fib = objectAt(left, 'fib');
  const flags = [fib?.['flags']].flat();
  if (fib?.['result'] !== 'type' || !flags.includes('daddr') || right !== 'local') return undefined;
  return is ? NEVER : ALWAYS;
}

function ownMark(left: Json, right: Json, is: boolean): Test | undefined {
  const value = numberOf(right);
  const masked = listAt(left, '&');
  const mask = masked === undefined ? 0xffffffff : numberOf(masked[1]);
  const key = textAt(objectAt(masked?.[0] ?? left, 'meta'), 'key');
  return key === 'mark' && value !== undefined && mask !== undefined ? markTest(value, mask, is) : undefined;
}

function numberOf(value: Json): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) ? number : undefined;
}

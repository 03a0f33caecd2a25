import { ADDRESS_BITS, type Family, parseAddress } from '../cidr/address.ts';
import { truncate } from '../cidr/prefix.ts';
import { complement, nothing, type Range, type RangeSet, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { markTest, type Test } from './base-chain.ts';
import { at, type Json, listAt, nameAndBody } from './nft-list.ts';
import { nftText } from './nft-text.ts';

/** What a rule is read with. */
export interface NftContext {
  /** The family of the packets. */
  readonly family: Family;
  /** The elements of the named sets and maps of the table. */
  readonly named: ReadonlyMap<string, readonly Json[]>;
  /** Throws if the budget is used up. */
  readonly check: () => void;
}

/** How nft(8) names the families: in payloads, and as nfproto. */
const PROTOCOLS: Readonly<Record<string, Family>> = { ip: 'IPv4', ip6: 'IPv6', ipv4: 'IPv4', ipv6: 'IPv6' };

/** The family that nft(8) names so; undefined if it is none. */
export function familyNamed(name: Json): Family | undefined {
  return typeof name === 'string' ? PROTOCOLS[name] : undefined;
}

/**
 * What a match asks of packets.
 *
 * @param place the names of table and chain
 */
export function readMatch(context: NftContext, place: string, statement: Json): Test {
  const { family } = context;
  const [left, op, right] = ['left', 'op', 'right'].map((key) => at(statement, 'match', key));
  const other = { text: nftText(statement), isSteady: isSteady(left, right) };
  // "in" is how some versions write == of flags and sets.
  if (op !== '==' && op !== '!=' && op !== 'in') return other;
  const is = op !== '!=';
  const always = (answer: boolean) => (answer === is ? undefined : nothing(family));

  const protocol = familyNamed(at(left, 'payload', 'protocol'));
  if (protocol !== undefined && protocol !== family) return nothing(family);
  if (protocol !== undefined && at(left, 'payload', 'field') === 'daddr') {
    const set = addressesOf(context, right);
    if (set !== undefined) return is ? set : complement(set);
  }
  const asked = familyNamed(right);
  if (/^(nfproto|protocol)$/.test(keyOf(left)) && asked !== undefined) return always(asked === family);
  // Policies are only about destinations that are not local.
  const isType = at(left, 'fib', 'result') === 'type' && [at(left, 'fib', 'flags')].flat().includes('daddr');
  if (isType && right === 'local') return always(false);
  const [marked = left, bits = 0xffffffff] = listAt(left, '&') ?? [];
  const [mask, value] = [Number(bits), Number(right ?? Number.NaN)];
  if (keyOf(marked) !== 'mark' || !Number.isInteger(mask) || !Number.isInteger(value)) return other;
  return markTest(family, place, value, mask, is);
}

/** The key of an expression `meta`; empty for any other expression. */
function keyOf(left: Json): string {
  return String(at(left, 'meta', 'key') ?? '');
}

/** Whether it is about a header, interface or protocol, and written out: a named set may change, a long one is cut off. */
function isSteady(left: Json, right: Json): boolean {
  const isKept = at(left, 'payload', 'field') !== undefined || /^[io]if|proto/.test(keyOf(left));
  const isValue = ['string', 'number'].includes(typeof right) && !String(right).startsWith('@');
  return isKept && (isValue || at(right, 'prefix') !== undefined || at(right, 'range') !== undefined);
}

/** The addresses that the right side of a match stands for; undefined if it is anything else. */
function addressesOf({ family, named, check }: NftContext, right: Json): RangeSet | undefined {
  const elements =
    referenced(right) === undefined ? (listAt(right, 'set') ?? [right]) : named.get(referenced(right) ?? '');
  const ranges = elements?.map((element) => {
    check();
    return rangeOfElement(family, elementValue(element));
  });
  return ranges?.every((range) => range !== undefined) ? rangeSet(family, ranges) : undefined;
}

/** The name of a set or map, which is written with `@`; undefined if it is anything else. */
export function referenced(value: Json): string | undefined {
  return typeof value === 'string' && value.startsWith('@') ? value.slice(1) : undefined;
}

/** An element of a set without its comment, timeout and counter. */
export function elementValue(element: Json): Json {
  return at(element, 'elem', 'val') ?? element;
}

function rangeOfElement(family: Family, element: Json): Range | undefined {
  const [name, body] = nameAndBody(element);
  if (name === 'prefix') {
    const [address, length] = [addressOf(family, at(body, 'addr')), Number(at(body, 'len'))];
    if (address === undefined || !(length >= 0 && length <= ADDRESS_BITS[family])) return undefined;
    return rangeOf({ family, address: truncate(address, length, family), length });
  }
  const [from, to] = listAt(element, 'range') ?? [element, element];
  const [first, last] = [addressOf(family, from), addressOf(family, to)];
  return first === undefined || last === undefined || last < first ? undefined : { first, last };
}

function addressOf(family: Family, text: Json): bigint | undefined {
  const address = typeof text === 'string' ? parseAddress(text) : undefined;
  return address?.family === family ? address.value : undefined;
}

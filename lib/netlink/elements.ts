import { interrupted, malformed } from './error.ts';
import { expressionIn, packetsIn } from './expressions.ts';
import {
  attribute,
  attributesIn,
  attributesOf,
  bytesOf,
  find,
  type Message,
  type Span,
  unsigned,
} from './messages.ts';

/** Consecutive addresses in an interval set, both ends included. */
export interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

interface Element extends Range {
  /** Undefined if the set does not count. */
  readonly packets: bigint | undefined;
}

/** The elements of an interval set, ascending. */
export interface Elements {
  readonly ranges: readonly Element[];
  /** Whether the set has an element for all other addresses. */
  readonly catchAll: boolean;
  /**
   * Whether nf_tables changed while the elements were read. If that was this set, elements may be missing: the kernel
   * counts those that it has sent, from the beginning.
   */
  readonly torn: boolean;
}

interface Part {
  readonly edges: readonly Edge[];
  /** The last 16 bits of the generation of nf_tables that it is of. */
  readonly generation: number;
}

/** The beginning of a range, the address behind its end, or all other addresses, as the flags say. */
interface Edge {
  readonly key: bigint;
  readonly flags: number;
  readonly packets: bigint | undefined;
}

/** Numbers of attributes, and flags, in linux/netfilter/nf_tables.h. */
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_LIST_ELEM = 1;
const NFTA_DATA_VALUE = 1;
const NFT_SET_ELEM_INTERVAL_END = 1;
const NFT_SET_ELEM_CATCHALL = 2;

/** The user data is a comment. Others, such as a time limit or a value, would change what the element means. */
const NFTA_SET_ELEM = { key: 1, flags: 3, userData: 6, expression: 7 } as const;
const KNOWN: readonly number[] = Object.values(NFTA_SET_ELEM);

/**
 * The attribute with ranges, and with the address behind the last one of each, which ends it; the highest address needs
 * no end. The key of an IPv4 set has 4 bytes, that of an IPv6 set 16.
 */
export function writeElements(ranges: readonly Range[], keyBytes: number): Buffer {
  const highest = 256n ** BigInt(keyBytes) - 1n;
  const end = attribute(NFTA_SET_ELEM.flags, Buffer.from([0, 0, 0, NFT_SET_ELEM_INTERVAL_END]));
  const element = (address: bigint, ...flags: readonly Buffer[]) => {
    const key = bytesOf(address, keyBytes);
    const wrapped = attribute(NFTA_SET_ELEM.key, [attribute(NFTA_DATA_VALUE, key)]);
    return attribute(NFTA_LIST_ELEM, [...flags, wrapped]);
  };
  const elements = ranges.flatMap(({ first, last }) => {
    if (first < 0n || last < first || last > highest) throw new RangeError(`no range: ${first} to ${last}`);
    return last === highest ? [element(first)] : [element(first), element(last + 1n, end)];
  });
  return attribute(NFTA_SET_ELEM_LIST_ELEMENTS, elements);
}

/** Reads NFT_MSG_NEWSETELEM. */
export function readElements(message: Message, keyBytes: 4 | 16): Part {
  const list = attributesIn(find(attributesOf(message), NFTA_SET_ELEM_LIST_ELEMENTS));
  const edges = list.map((element) => readEdge(element, keyBytes));
  const { bytes, start } = message.payload;
  // nf_tables sets `res_id` of `struct nfgenmsg` so.
  return { edges, generation: bytes.readUInt16BE(start + 2) };
}

function readEdge(element: Span, keyBytes: 4 | 16): Edge {
  const parts = attributesIn(element);
  for (const { type } of parts) if (!KNOWN.includes(type)) throw malformed(`attribute ${type} of an element`);
  const [key, expression] = [find(parts, NFTA_SET_ELEM.key), find(parts, NFTA_SET_ELEM.expression)];
  const flagged = find(parts, NFTA_SET_ELEM.flags);
  const flags = flagged === undefined ? 0 : Number(unsigned(flagged, 4));
  const packets = expression && packetsIn([expressionIn(expression)]);
  if (flags === NFT_SET_ELEM_CATCHALL && key === undefined) return { key: 0n, flags, packets };
  if (flags !== 0 && flags !== NFT_SET_ELEM_INTERVAL_END) throw malformed(`an element with flags ${flags}`);
  return { key: unsigned(find(attributesIn(key), NFTA_DATA_VALUE), keyBytes), flags, packets };
}

/**
 * All elements of a set. As in the kernel, a range goes up to the next edge, whether that is its end or the beginning of
 * another range; nft(8) may write an end at the lowest address, which ends nothing.
 */
export function joinElements(parts: readonly Part[], keyBytes: number): Elements {
  const all = parts.flatMap(({ edges }) => edges);
  const edges = all.filter(({ flags }) => flags !== NFT_SET_ELEM_CATCHALL).toSorted(byKey);
  const torn = parts.some(({ generation }) => generation !== parts[0]?.generation);
  const highest = 256n ** BigInt(keyBytes) - 1n;
  const ranges: Element[] = [];
  for (const [index, { key, flags, packets }] of edges.entries()) {
    if (flags === NFT_SET_ELEM_INTERVAL_END) continue;
    const next = edges[index + 1];
    if (next?.key === key) throw torn ? interrupted('list elements') : malformed('an element twice');
    ranges.push({ first: key, last: next === undefined ? highest : next.key - 1n, packets });
  }
  return { ranges, catchAll: all.length > edges.length, torn };
}

/** Ascending, an end before a beginning. The kernel sends them in order, which makes sorting cheap. */
function byKey(a: Edge, b: Edge): number {
  if (a.key !== b.key) return a.key < b.key ? -1 : 1;
  return b.flags - a.flags;
}

import type { Family } from '../cidr/address.ts';
import type { Range } from '../cidr/ranges.ts';
import { interrupted } from './error.ts';
import { countedBy } from './expressions.ts';
import {
  ATTRIBUTE_HEADER_BYTES,
  aligned,
  attribute,
  attributeEnd,
  attributesIn,
  attributesOf,
  attributeType,
  bigUint,
  bytesOf,
  find,
  type Message,
  type NFPROTO,
  NLA_F_NESTED,
  type Span,
  uintAt,
} from './messages.ts';
import { OPEN_END } from './user-data.ts';

/** Bytes of an address of IPv4 or IPv6. */
type KeyBytes = (typeof NFPROTO)[Family]['bytes'];

interface Element extends Range {
  /** Undefined if the set does not count. */
  readonly packets?: bigint | undefined;
}

/** The elements of an interval set, ascending. */
export interface Elements {
  readonly ranges: readonly Element[];
  /** Whether the set has an element for all other addresses. */
  readonly catchAll: boolean;
  /** Whether an element has more than a range and a count, such as a time limit, which changes what it means. */
  readonly hasOthers: boolean;
}

/** The beginning of a range, the address behind its end, or all other addresses, as the flags say. */
interface Edge {
  readonly key: bigint;
  readonly flags: number;
  readonly packets: bigint | undefined;
  readonly hasOthers: boolean;
}

/** Numbers of attributes, and flags, in linux/netfilter/nf_tables.h. */
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_LIST_ELEM = 1;
const NFTA_DATA_VALUE = 1;
const NFT_SET_ELEM_INTERVAL_END = 1;
const NFT_SET_ELEM_CATCHALL = 2;
const NFTA_SET_ELEM = { key: 1, flags: 3, userData: 6, expression: 7, padding: 8 } as const;
/**
 * The attribute with ranges, and with the address behind the last one of each, which ends it; the highest address needs
 * no end. The key of an IPv4 set has 4 bytes, that of an IPv6 set 16.
 */
export function writeElements(ranges: readonly Range[], keyBytes: KeyBytes): Buffer {
  const highest = 256n ** BigInt(keyBytes) - 1n;
  // A list can have 100,000: each is a copy of one of these, with its key in place of zeros.
  const element = (...more: readonly Buffer[]) => {
    const key = attribute(NFTA_SET_ELEM.key, [attribute(NFTA_DATA_VALUE, Buffer.alloc(keyBytes))]);
    return attribute(NFTA_LIST_ELEM, [key, ...more]);
  };
  const first = element();
  const end = element(attribute(NFTA_SET_ELEM.flags, bytesOf(NFT_SET_ELEM_INTERVAL_END, 4)));
  const open = element(attribute(NFTA_SET_ELEM.userData, OPEN_END));
  const elements = Buffer.alloc(ranges.length * (first.length + Math.max(end.length, open.length)));
  let at = 0;
  const put = (copied: Buffer, key: bigint): void => {
    elements.set(copied, at);
    writeKey(elements, at + KEY_OFFSET, key, keyBytes);
    at += copied.length;
  };
  for (const range of ranges) {
    if (range.first < 0n || range.last < range.first || range.last > highest)
      throw new RangeError(`no range: ${range.first} to ${range.last}`);
    if (range.last === highest) put(open, range.first);
    else {
      put(first, range.first);
      put(end, range.last + 1n);
    }
  }
  return attribute(NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED, elements.subarray(0, at));
}

/** Behind the headers of the element, of its key and of the value. */
const KEY_OFFSET = 12;

function writeKey(bytes: Buffer, at: number, key: bigint, keyBytes: number): void {
  if (keyBytes === 4) bytes.writeUInt32BE(Number(key), at);
  else bytes.set(bytesOf(key, keyBytes), at);
}

/** Reads NFT_MSG_NEWSETELEM. */
export function readElements(message: Message, keyBytes: KeyBytes): readonly Edge[] {
  const list = attributesIn(find(attributesOf(message), NFTA_SET_ELEM_LIST_ELEMENTS));
  return list.map((element) => readEdge(element, keyBytes));
}

/** There can be 100,000 of them: attributes are passed once. */
function readEdge(element: Span, keyBytes: KeyBytes): Edge {
  const { bytes, numbers, end } = element;
  let key = 0n;
  let flags = 0;
  let hasOthers = false;
  let packets: bigint | undefined;
  for (let at = element.start, last = at; at < end; at = aligned(last)) {
    const start = at + ATTRIBUTE_HEADER_BYTES;
    last = attributeEnd(numbers, at, end);
    switch (attributeType(numbers, at)) {
      case NFTA_SET_ELEM.key:
        key = bigUint(find({ bytes, numbers, start, end: last }, NFTA_DATA_VALUE), keyBytes);
        break;
      case NFTA_SET_ELEM.flags:
        flags = uintAt(numbers, start, last, 4);
        break;
      case NFTA_SET_ELEM.expression:
        packets = countedBy({ bytes, numbers, start, end: last });
        hasOthers ||= packets === undefined;
        break;
      case NFTA_SET_ELEM.userData:
      case NFTA_SET_ELEM.padding:
        break;
      default:
        hasOthers = true;
    }
  }
  hasOthers ||= flags > NFT_SET_ELEM_CATCHALL;
  return { key, flags, packets, hasOthers };
}

/**
 * All elements of a set. As in the kernel, a range goes up to the next edge, whether that is its end or the beginning of
 * another range; nft(8) may write an end at the lowest address, which ends nothing. The kernel accepts other ends that
 * end nothing, and refuses ranges around them: such a set has others.
 */
export function joinElements(all: readonly Edge[], keyBytes: KeyBytes): Elements {
  const edges = all.filter(({ flags }) => flags !== NFT_SET_ELEM_CATCHALL).toSorted(byKey);
  const highest = 256n ** BigInt(keyBytes) - 1n;
  const ranges: Element[] = [];
  let hasOthers = all.some((one) => one.hasOthers);
  for (let index = 0; index < edges.length; index += 1) {
    const { key, flags, packets } = edges[index] as Edge;
    if (flags === NFT_SET_ELEM_INTERVAL_END) {
      hasOthers ||= key !== 0n && (index === 0 || isEnd(edges[index - 1]));
      continue;
    }
    const next = edges[index + 1];
    // Keys of several parts may begin alike.
    if (next?.key === key) throw interrupted('list elements');
    const end = next === undefined ? highest : next.key - 1n;
    ranges.push({ first: key, last: end, packets });
  }
  const catchAll = all.some(({ flags }) => flags === NFT_SET_ELEM_CATCHALL);
  return { ranges, catchAll, hasOthers };
}

function isEnd(edge: Edge | undefined): boolean {
  return edge?.flags === NFT_SET_ELEM_INTERVAL_END;
}

/** Ascending, an end before a beginning. The kernel sends them in order, which makes sorting cheap. */
function byKey(a: Edge, b: Edge): number {
  if (a.key !== b.key) return a.key < b.key ? -1 : 1;
  return b.flags - a.flags;
}

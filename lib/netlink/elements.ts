import type { Range } from '../cidr/ranges.ts';
import { interrupted, malformed } from './error.ts';
import { packetsAt, readVerdict, type VerdictData } from './expressions.ts';
import {
  ATTRIBUTE_HEADER_BYTES,
  aligned,
  attribute,
  attributesIn,
  attributesOf,
  endOf,
  find,
  lengthAt,
  type Message,
  type Span,
  seek,
  typeAt,
  unsigned,
} from './messages.ts';
import { OPEN_END } from './user-data.ts';

interface Element extends Range {
  /** Undefined if the set does not count. */
  readonly packets: bigint | undefined;
  /** Undefined if the set is no verdict map. */
  readonly verdict?: VerdictData | undefined;
}

/** The elements of an interval set, ascending. */
export interface Elements {
  readonly ranges: readonly Element[];
  /** Whether the set has an element for all other addresses. */
  readonly catchAll: boolean;
  /** What becomes of a packet with any other address in a verdict map. */
  readonly otherVerdict?: VerdictData | undefined;
  /** Whether an element has more than a range and a count, such as a time limit, which changes what it means. */
  readonly hasOthers: boolean;
  /** The generations of nf_tables, their last 16 bits, in which the elements were read. */
  readonly generations: readonly number[];
}

interface Part {
  readonly edges: readonly Edge[];
  readonly generation: number;
}

/** The beginning of a range, the address behind its end, or all other addresses, as the flags say. */
interface Edge {
  readonly key: bigint;
  readonly flags: number;
  readonly packets: bigint | undefined;
  readonly hasOthers: boolean;
  readonly verdict?: VerdictData | undefined;
}

/** Numbers of attributes, and flags, in linux/netfilter/nf_tables.h. */
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_LIST_ELEM = 1;
const NFTA_DATA_VALUE = 1;
const NFT_SET_ELEM_INTERVAL_END = 1;
const NFT_SET_ELEM_CATCHALL = 2;
const NFTA_SET_ELEM = { key: 1, data: 2, flags: 3, userData: 6, expression: 7, padding: 8 } as const;
const NLA_F_NESTED = 0x8000;

/** The bytes of an attribute with the flags. */
const FLAGS_BYTES = 8;

/**
 * The attribute with ranges, and with the address behind the last one of each, which ends it; the highest address needs
 * no end. The key of an IPv4 set has 4 bytes, that of an IPv6 set 16. All is written into one buffer, because there can be
 * 100,000 ranges.
 */
export function writeElements(ranges: readonly Range[], keyBytes: number): Buffer {
  const highest = 256n ** BigInt(keyBytes) - 1n;
  const keyLength = 2 * ATTRIBUTE_HEADER_BYTES + keyBytes;
  const bytes = Buffer.alloc(ranges.length * (2 * (ATTRIBUTE_HEADER_BYTES + keyLength) + FLAGS_BYTES + 4));
  let at = 0;
  const header = (length: number, type: number): void => {
    bytes.writeUInt16LE(length, at);
    bytes.writeUInt16LE(type, at + 2);
    at += ATTRIBUTE_HEADER_BYTES;
  };
  const element = (address: bigint, moreBytes: number): void => {
    header(ATTRIBUTE_HEADER_BYTES + keyLength + moreBytes, NFTA_LIST_ELEM | NLA_F_NESTED);
    header(keyLength, NFTA_SET_ELEM.key | NLA_F_NESTED);
    header(ATTRIBUTE_HEADER_BYTES + keyBytes, NFTA_DATA_VALUE);
    if (keyBytes === 4) bytes.writeUInt32BE(Number(address), at);
    else bytes.writeBigUInt64BE(address >> 64n, at);
    if (keyBytes === 16) bytes.writeBigUInt64BE(address & 0xffff_ffff_ffff_ffffn, at + 8);
    at += keyBytes;
  };
  for (const { first, last } of ranges) {
    if (first < 0n || last < first || last > highest) throw new RangeError(`no range: ${first} to ${last}`);
    if (last === highest) {
      element(first, aligned(ATTRIBUTE_HEADER_BYTES + OPEN_END.length));
      header(ATTRIBUTE_HEADER_BYTES + OPEN_END.length, NFTA_SET_ELEM.userData);
      at += aligned(OPEN_END.copy(bytes, at));
    } else {
      element(first, 0);
      element(last + 1n, FLAGS_BYTES);
      header(FLAGS_BYTES, NFTA_SET_ELEM.flags);
      at = bytes.writeUInt32BE(NFT_SET_ELEM_INTERVAL_END, at);
    }
  }
  return attribute(NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED, bytes.subarray(0, at));
}

/** Reads NFT_MSG_NEWSETELEM. */
export function readElements(message: Message, keyBytes: number): Part {
  const list = attributesIn(find(attributesOf(message), NFTA_SET_ELEM_LIST_ELEMENTS));
  const { bytes, start } = message.payload;
  // nf_tables sets `res_id` of `struct nfgenmsg` so.
  return {
    edges: list.map((element) => readEdge(element, keyBytes)),
    generation: bytes.readUInt16BE(start + 2),
  };
}

/** Reads one element without an object for each of its attributes. */
function readEdge({ bytes, start, end }: Span, keyBytes: number): Edge {
  let [key, flags, hasOthers] = [-1n, 0, false];
  let packets: bigint | undefined;
  let verdict: VerdictData | undefined;
  for (let at = start; at < end; ) {
    const length = lengthAt(bytes, at, end);
    const payload = at + ATTRIBUTE_HEADER_BYTES;
    switch (typeAt(bytes, at)) {
      case NFTA_SET_ELEM.key:
        key = keyIn(bytes, payload, at + length, keyBytes);
        break;
      case NFTA_SET_ELEM.flags:
        flags = Number(unsigned({ bytes, start: payload, end: at + length }, 4));
        break;
      case NFTA_SET_ELEM.expression:
        packets = packetsAt(bytes, payload, at + length);
        hasOthers ||= packets === undefined;
        break;
      case NFTA_SET_ELEM.data:
        verdict = readVerdict({ bytes, start: payload, end: at + length });
        hasOthers = true;
        break;
      case NFTA_SET_ELEM.userData:
      case NFTA_SET_ELEM.padding:
        break;
      default:
        hasOthers = true;
    }
    at += aligned(length);
  }
  const isCatchAll = flags === NFT_SET_ELEM_CATCHALL;
  if (flags > NFT_SET_ELEM_INTERVAL_END && !isCatchAll) hasOthers = true;
  if (key === -1n && !isCatchAll) throw malformed('an element without a key');
  return { key, flags, packets, hasOthers, ...(verdict && { verdict }) };
}

function keyIn(bytes: Buffer, start: number, end: number, keyBytes: number): bigint {
  const at = seek(bytes, start, end, NFTA_DATA_VALUE);
  const length = at < 0 ? 0 : endOf(bytes, at) - at;
  if (length !== keyBytes) throw malformed(`${length} bytes instead of ${keyBytes}`);
  if (keyBytes === 4) return BigInt(bytes.readUInt32BE(at));
  if (keyBytes === 16) return (bytes.readBigUInt64BE(at) << 64n) | bytes.readBigUInt64BE(at + 8);
  return BigInt(`0x${bytes.toString('hex', at, at + keyBytes)}`);
}

/**
 * All elements of a set. In a set of intervals, as in the kernel, a range goes up to the next edge, whether that is its end or the beginning of
 * another range; nft(8) may write an end at the lowest address, which ends nothing. The kernel accepts other ends that
 * end nothing, and refuses ranges around them: such a set has others.
 */
export function joinElements(parts: readonly Part[], keyBytes: number, isInterval = true): Elements {
  const all = parts.flatMap(({ edges }) => edges);
  const edges = all.filter(({ flags }) => flags !== NFT_SET_ELEM_CATCHALL).toSorted(byKey);
  const generations = [...new Set(parts.map(({ generation }) => generation))];
  const highest = 256n ** BigInt(keyBytes) - 1n;
  const ranges: Element[] = [];
  let hasOthers = all.some((one) => one.hasOthers);
  for (const [index, { key, packets, verdict }] of edges.entries()) {
    if (isEnd(edges[index])) {
      hasOthers ||= key !== 0n && (index === 0 || isEnd(edges[index - 1]));
      continue;
    }
    const next = edges[index + 1];
    // Keys of several parts may begin alike.
    if (isInterval && next?.key === key)
      throw generations.length > 1 ? interrupted('list elements') : malformed('an element twice');
    const end = next === undefined ? highest : next.key - 1n;
    ranges.push({ first: key, last: isInterval ? end : key, packets, ...(verdict && { verdict }) });
  }
  const other = all.find(({ flags }) => flags === NFT_SET_ELEM_CATCHALL);
  return {
    ranges,
    catchAll: other !== undefined,
    ...(other?.verdict && { otherVerdict: other.verdict }),
    hasOthers,
    generations,
  };
}

export function isEnd(edge: Edge | undefined): boolean {
  return edge?.flags === NFT_SET_ELEM_INTERVAL_END;
}

/** Ascending, an end before a beginning. The kernel sends them in order, which makes sorting cheap. */
function byKey(a: Edge, b: Edge): number {
  if (a.key !== b.key) return a.key < b.key ? -1 : 1;
  return b.flags - a.flags;
}

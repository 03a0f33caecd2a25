import { type Attribute, attributesIn, findIn, u32, type Writer } from './attributes.ts';
import { interrupted, malformed } from './error.ts';
import { type Counter, commentIn, counterIn, expressionIn, expressionsIn } from './expressions.ts';
import { attributesOf, generationOf, type Message } from './messages.ts';

/** Consecutive addresses in an interval set, both ends included. */
export interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

/** An element of an interval set. */
export interface Element extends Range {
  /** Undefined if the set does not count. */
  readonly counter: Counter | undefined;
  readonly comment: string | undefined;
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

/** Bytes in an address. */
export type KeyBytes = 4 | 16;

/** `nft_set_elem_list_attributes` and `nft_set_elem_attributes` in linux/netfilter/nf_tables.h. */
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_LIST_ELEM = 1;
const NFTA_SET_ELEM_KEY = 1;
const NFTA_SET_ELEM_FLAGS = 3;
const NFTA_SET_ELEM_TIMEOUT = 4;
const NFTA_SET_ELEM_EXPIRATION = 5;
const NFTA_SET_ELEM_USERDATA = 6;
const NFTA_SET_ELEM_EXPR = 7;
const NFTA_SET_ELEM_PAD = 8;
const NFTA_SET_ELEM_EXPRESSIONS = 11;
const NFTA_DATA_VALUE = 1;
const NFT_SET_ELEM_INTERVAL_END = 1;
const NFT_SET_ELEM_CATCHALL = 2;

/** An attribute has at most 64 KiB, and a range of IPv6 at most 64 bytes. */
export const RANGES_IN_A_MESSAGE = 1_000;

/** Adds ranges, with an address behind the last one of each, which ends it; the highest address needs no end. */
export function writeElements(writer: Writer, ranges: readonly Range[], keyBytes: KeyBytes): void {
  const highest = (1n << BigInt(8 * keyBytes)) - 1n;
  writer.nested(NFTA_SET_ELEM_LIST_ELEMENTS, () => {
    for (const { first, last } of ranges) {
      if (first < 0n || last < first || last > highest) throw new RangeError(`no range: ${first} to ${last}`);
      writeElement(writer, first, keyBytes, 0);
      if (last < highest) writeElement(writer, last + 1n, keyBytes, NFT_SET_ELEM_INTERVAL_END);
    }
  });
}

function writeElement(writer: Writer, key: bigint, keyBytes: KeyBytes, flags: number): void {
  writer.nested(NFTA_LIST_ELEM, () => {
    if (flags !== 0) writer.u32(NFTA_SET_ELEM_FLAGS, flags);
    writer.nested(NFTA_SET_ELEM_KEY, () => writer.address(NFTA_DATA_VALUE, key, keyBytes));
  });
}

/** The beginning of a range, or the address behind its end. */
interface Edge extends Pick<Element, 'counter' | 'comment'> {
  readonly key: bigint;
  readonly isEnd: boolean;
}

/** Collects the elements of one set from many messages. */
export class ElementReader {
  readonly #keyBytes: KeyBytes;
  readonly #edges: Edge[] = [];
  #catchAll = false;
  #generation: number | undefined;
  #torn = false;

  constructor(keyBytes: KeyBytes) {
    this.#keyBytes = keyBytes;
  }

  /** Reads the elements in a message. */
  read(message: Message): void {
    const list = attributesOf(message).find(({ type }) => type === NFTA_SET_ELEM_LIST_ELEMENTS);
    for (const one of list === undefined ? [] : attributesIn(list)) this.#readElement(one);
    const generation = generationOf(message);
    this.#generation ??= generation;
    if (generation !== this.#generation) this.#torn = true;
  }

  #readElement(element: Attribute): void {
    let [key, flags]: [bigint | undefined, number] = [undefined, 0];
    let [counter, comment]: [Counter | undefined, string | undefined] = [undefined, undefined];
    for (const part of attributesIn(element)) {
      if (part.type === NFTA_SET_ELEM_KEY) key = this.#readKey(findIn(part, NFTA_DATA_VALUE));
      else if (part.type === NFTA_SET_ELEM_FLAGS) flags = u32(part);
      else if (part.type === NFTA_SET_ELEM_EXPR) counter = counterIn([expressionIn(part)]);
      else if (part.type === NFTA_SET_ELEM_EXPRESSIONS) counter = counterIn(expressionsIn(part));
      else if (part.type === NFTA_SET_ELEM_USERDATA) comment = commentIn(part);
      else if (!HARMLESS.includes(part.type)) throw malformed(`attribute ${part.type} of an element`);
    }
    const isEnd = flags === NFT_SET_ELEM_INTERVAL_END;
    if (flags === NFT_SET_ELEM_CATCHALL && key === undefined) this.#catchAll = true;
    else if (key === undefined || (flags !== 0 && !isEnd)) throw malformed(`an element with flags ${flags}`);
    else this.#edges.push({ key, isEnd, counter, comment });
  }

  #readKey(value: Attribute | undefined): bigint {
    if (value === undefined || value.to - value.from !== this.#keyBytes)
      throw malformed('the key of an element');
    const { buffer, from } = value;
    if (this.#keyBytes === 4) return BigInt(buffer.readUInt32BE(from));
    return (buffer.readBigUInt64BE(from) << 64n) | buffer.readBigUInt64BE(from + 8);
  }

  /**
   * All elements. As in the kernel, a range goes up to the next edge, whether that is its end or the beginning of another
   * range; nft(8) may write an end at the lowest address, which ends nothing.
   */
  get elements(): Elements {
    const edges = this.#edges.toSorted(byKey);
    const highest = (1n << BigInt(8 * this.#keyBytes)) - 1n;
    const ranges: Element[] = [];
    for (const [index, { key, isEnd, counter, comment }] of edges.entries()) {
      if (isEnd) continue;
      const next = edges[index + 1];
      if (next?.key === key)
        throw this.#torn ? interrupted('read all elements') : malformed('an element twice');
      ranges.push({ first: key, last: next === undefined ? highest : next.key - 1n, counter, comment });
    }
    return { ranges, catchAll: this.#catchAll, torn: this.#torn };
  }
}

/** Attributes that do not change what an element means. */
const HARMLESS = [NFTA_SET_ELEM_TIMEOUT, NFTA_SET_ELEM_EXPIRATION, NFTA_SET_ELEM_PAD];

/** Ascending, an end before a beginning. The kernel sends them in order, which makes sorting cheap. */
function byKey(a: Edge, b: Edge): number {
  if (a.key !== b.key) return a.key < b.key ? -1 : 1;
  return Number(b.isEnd) - Number(a.isEnd);
}

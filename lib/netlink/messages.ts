import type { Family } from '../cidr/address.ts';
import { malformed } from './error.ts';

/**
 * A part of what the kernel has sent, valid until the next message is received. To make a Buffer of each part would take
 * longer than all the rest of reading.
 */
export interface Span {
  readonly bytes: Buffer;
  /** The same bytes, for numbers: methods of Buffer take twice as long. */
  readonly numbers: DataView;
  readonly start: number;
  /** The offset behind its last byte. */
  readonly end: number;
}

/** A message of the kernel (`struct nlmsghdr` in linux/netlink.h). */
export interface Message {
  readonly type: number;
  readonly sequence: number;
  /** The port of the socket that asked. */
  readonly port: number;
  readonly payload: Span;
}

/** The payload of an attribute (`struct nlattr`), and its type without flags. */
export interface Attribute extends Span {
  readonly type: number;
}

export interface Request {
  readonly type: number;
  /** The type of the replies; absent if it is the number before, as in nf_tables. */
  readonly reply?: number;
  readonly flags: number;
  /** 0 for any family. */
  readonly protocol: number;
  readonly attributes: readonly Buffer[];
}

/** NFPROTO_… in linux/netfilter.h, which are AF_… too; the bytes of an address; and how nft(8) calls the family. */
export const NFPROTO = {
  IPv4: { protocol: 2, bytes: 4, word: 'ip' },
  IPv6: { protocol: 10, bytes: 16, word: 'ip6' },
} as const satisfies Record<Family, unknown>;

/** The same of all families of tables with rules of NAT: NFPROTO_INET is for packets of both. */
export const TABLE_FAMILIES = { ...NFPROTO, inet: { protocol: 1, bytes: 0, word: 'inet' } } as const;

export type TableFamily = keyof typeof TABLE_FAMILIES;

/** Attributes of messages of nf_tables: NFTA_TABLE_NAME and so on. The name of the table is the first one of every message. */
export const NFTA = {
  table: { name: 1, flags: 2, use: 3, userData: 6, owner: 7 },
  chain: { table: 1, name: 3, hook: 4, policy: 5, use: 6, type: 7, flags: 10, userData: 12 },
  hook: { number: 1, priority: 2 },
  rule: { table: 1, chain: 2, expressions: 4, userData: 7 },
  set: {
    name: 2,
    flags: 3,
    keyType: 4,
    keyLength: 5,
    description: 9,
    id: 10,
    userData: 13,
    expression: 17,
    expressions: 18,
  },
  object: { name: 2, type: 3 },
} as const;

/** NFT_SET_… flags of a set. */
export const NFT_SET = { interval: 0x4 } as const;

/** Types of messages in linux/netfilter/nf_tables.h; the high byte is the subsystem. */
export const NFT_MSG = {
  newTable: 0x0a00,
  getTable: 0x0a01,
  deleteTable: 0x0a02,
  newChain: 0x0a03,
  getChain: 0x0a04,
  deleteChain: 0x0a05,
  newRule: 0x0a06,
  getRule: 0x0a07,
  deleteRule: 0x0a08,
  newSet: 0x0a09,
  getSet: 0x0a0a,
  deleteSet: 0x0a0b,
  newSetElement: 0x0a0c,
  getSetElement: 0x0a0d,
  deleteSetElement: 0x0a0e,
  newGeneration: 0x0a0f,
  getGeneration: 0x0a10,
  getObject: 0x0a13,
  deleteObject: 0x0a14,
} as const;

const NFNL_SUBSYS_NFTABLES = 0x0a;
const NFNL_MSG_BATCH_BEGIN = 0x10;
const NFNL_MSG_BATCH_END = 0x11;
const NFNL_BATCH_GENID = 1;

/** Flags of a request, beside NLM_F_REQUEST. */
export const NLM_F = {
  none: 0,
  ack: 0x4,
  dump: 0x300,
  create: 0x400,
  createExclusive: 0x600,
  /** NLM_F_CREATE and NLM_F_APPEND: behind the other rules of the chain. */
  append: 0xc00,
} as const;
const NLM_F_REQUEST = 0x1;

const HEADER_BYTES = 16;
/** The payload of a message of nfnetlink begins with `struct nfgenmsg` (linux/netfilter/nfnetlink.h). */
const NFGENMSG_BYTES = 4;
export const ATTRIBUTE_HEADER_BYTES = 4;
const LONGEST_ATTRIBUTE = 0xffff;
export const NLA_F_NESTED = 0x8000;
const NLA_TYPE_MASK = 0x3fff;

/** NLMSG_ALIGNTO and NLA_ALIGNTO. */
export function aligned(length: number): number {
  return (length + 3) & ~3;
}

/** The offset behind a part that begins with a header, and that with the length of both. It must fit. */
function endOf(length: number, headerBytes: number, at: number, end: number): number {
  if (length < headerBytes || length > end - at)
    throw malformed(`${length} bytes in the space of ${end - at}`);
  return at + length;
}

/** The same of an attribute. */
export function attributeEnd(numbers: DataView, at: number, end: number): number {
  const isWhole = end - at >= ATTRIBUTE_HEADER_BYTES;
  return endOf(isWhole ? numbers.getUint16(at, true) : 0, ATTRIBUTE_HEADER_BYTES, at, end);
}

/** The messages in what the kernel sent at once. */
export function messagesIn(bytes: Buffer): readonly Message[] {
  const messages: Message[] = [];
  const numbers = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length; ) {
    const isWhole = bytes.length - at >= HEADER_BYTES;
    const end = endOf(isWhole ? numbers.getUint32(at, true) : 0, HEADER_BYTES, at, bytes.length);
    messages.push({
      type: numbers.getUint16(at + 4, true),
      sequence: numbers.getUint32(at + 8, true),
      port: numbers.getUint32(at + 12, true),
      payload: { bytes, numbers, start: at + HEADER_BYTES, end },
    });
    at = aligned(end);
  }
  return messages;
}

/** The attributes of a message, behind a header, by default that of netfilter. */
export function attributesOf({ payload }: Message, headerBytes = NFGENMSG_BYTES): Span {
  const start = payload.start + headerBytes;
  if (payload.end < start) throw malformed('a message without a header');
  return { ...payload, start };
}

/** All attributes in order: those of a list have the same type. None if what could hold them is missing. */
export function attributesIn(attributes: Span | undefined): readonly Attribute[] {
  const found: Attribute[] = [];
  const { bytes, numbers, start, end } = attributes ?? NOTHING;
  for (let at = start, last = start; at < end; at = aligned(last)) {
    last = attributeEnd(numbers, at, end);
    const type = attributeType(numbers, at);
    found.push({ type, bytes, numbers, start: at + ATTRIBUTE_HEADER_BYTES, end: last });
  }
  return found;
}

/** The payload of the first attribute of a type; undefined if there is none, or what could hold it is missing. */
export function find(attributes: Span | undefined, type: number): Span | undefined {
  const { bytes, numbers, start, end } = attributes ?? NOTHING;
  for (let at = start, last = start; at < end; at = aligned(last)) {
    last = attributeEnd(numbers, at, end);
    if (attributeType(numbers, at) === type)
      return { bytes, numbers, start: at + ATTRIBUTE_HEADER_BYTES, end: last };
  }
  return undefined;
}

export function attributeType(numbers: DataView, at: number): number {
  return numbers.getUint16(at + 2, true) & NLA_TYPE_MASK;
}

const NOTHING: Span = { bytes: Buffer.alloc(0), numbers: new DataView(new ArrayBuffer(0)), start: 0, end: 0 };

/** A payload that must be a number of so many bytes. Those of netfilter have the highest byte first. */
export function uint(payload: Span | undefined, length: 1 | 2 | 4 = 4): number {
  const { numbers, start, end } = payload ?? NOTHING;
  return uintAt(numbers, start, end, length);
}

/** The same of what stands between two offsets. */
export function uintAt(numbers: DataView, start: number, end: number, length: 1 | 2 | 4): number {
  expectBytes(end - start, length);
  if (length === 4) return numbers.getUint32(start);
  return length === 2 ? numbers.getUint16(start) : numbers.getUint8(start);
}

/** The same of a number that may be larger, such as an address. */
export function bigUint(payload: Span | undefined, length: 4 | 8 | 16): bigint {
  const { numbers, start, end } = payload ?? NOTHING;
  return bigUintAt(numbers, start, end, length);
}

export function bigUintAt(numbers: DataView, start: number, end: number, length: 4 | 8 | 16): bigint {
  if (length === 4) return BigInt(uintAt(numbers, start, end, length));
  expectBytes(end - start, length);
  const first = numbers.getBigUint64(start);
  return length === 8 ? first : (first << 64n) | numbers.getBigUint64(start + 8);
}

/** A payload that must be a number of 4 bytes in the order of the machine. Those of rtnetlink are. */
export function hostUint(payload: Span | undefined): number {
  const { numbers, start, end } = payload ?? NOTHING;
  expectBytes(end - start, 4);
  return numbers.getUint32(start, true);
}

function expectBytes(found: number, expected: number): void {
  if (found !== expected) throw malformed(`${found} bytes instead of ${expected}`);
}

/** A payload that must be a text, with a zero byte at its end. */
export function text(payload: Span | undefined): string {
  const { bytes, start, end } = payload ?? NOTHING;
  if (start === end || bytes[end - 1] !== 0) throw malformed('a text without an end');
  return bytes.toString('utf8', start, end - 1);
}

/** A text as it stands in a payload. */
export function nameBytes(name: string): Buffer {
  return Buffer.from(`${name}\0`);
}

/** Whether a payload is that text. Of very many messages, none is made into a text. */
export function isText(payload: Span | undefined, name: Buffer): boolean {
  const isAsLong = payload !== undefined && payload.end - payload.start === name.length;
  return isAsLong && name.compare(payload.bytes, payload.start, payload.end) === 0;
}

/** The kernel's error number in NLMSG_ERROR or NLMSG_DONE; 0 for success. */
export function errnoIn({ payload: { numbers, start, end } }: Message): number {
  if (end - start < 4) throw malformed('an end without an error number');
  return 0 - numbers.getInt32(start, true);
}

/** NLMSGERR_ATTR_OFFS, behind the error number and the header of the refused message (NETLINK_CAP_ACK). */
const ERROR_OFFSET = { type: 2, start: 4 + HEADER_BYTES } as const;

/** Where in the refused message is what the kernel refuses (NETLINK_EXT_ACK); undefined if it does not say that. */
export function offsetIn({ payload }: Message): number | undefined {
  const start = Math.min(payload.start + ERROR_OFFSET.start, payload.end);
  const offset = find({ ...payload, start }, ERROR_OFFSET.type);
  return offset && hostUint(offset);
}

/** A number to send, with the highest byte first. */
export function bytesOf(value: bigint | number, length: number): Buffer {
  return Buffer.from(value.toString(16).padStart(2 * length, '0'), 'hex');
}

/** An attribute to send: of bytes, of a text, or of attributes. */
export function attribute(type: number, content: Buffer | string | readonly Buffer[]): Buffer {
  if (typeof content === 'string') return attribute(type, nameBytes(content));
  if (!Buffer.isBuffer(content)) return attribute(type | NLA_F_NESTED, Buffer.concat(content));
  const length = ATTRIBUTE_HEADER_BYTES + content.length;
  if (length > LONGEST_ATTRIBUTE) throw new RangeError(`an attribute of ${length} bytes`);
  const bytes = Buffer.alloc(aligned(length));
  bytes.writeUInt16LE(length);
  bytes.writeUInt16LE(type, 2);
  bytes.set(content, ATTRIBUTE_HEADER_BYTES);
  return bytes;
}

/** A message to the kernel; its number comes back in the answers. */
export function writeMessage(request: Request, sequence: number): Buffer {
  const bytes = Buffer.concat([Buffer.alloc(HEADER_BYTES + NFGENMSG_BYTES), ...request.attributes]);
  bytes.writeUInt32LE(bytes.length);
  bytes.writeUInt16LE(request.type, 4);
  bytes.writeUInt16LE(request.flags | NLM_F_REQUEST, 6);
  bytes.writeUInt32LE(sequence, 8);
  bytes.writeUInt8(request.protocol, HEADER_BYTES);
  return bytes;
}

/**
 * A batch: the kernel carries out all requests in it, or none. It answers the last one, and those that fail: the number of
 * each is its index.
 *
 * @param generation if given, the kernel refuses the batch with ERESTART once anything has changed since that generation
 */
export function writeBatch(requests: readonly Request[], sequence: number, generation?: number): Buffer {
  const messages = requests.map((request, index) => {
    const flags = request.flags | (index === requests.length - 1 ? NLM_F.ack : NLM_F.none);
    return writeMessage({ ...request, flags }, (sequence + index) >>> 0);
  });
  const edge = (type: number, ...attributes: readonly Buffer[]) => {
    const bytes = writeMessage({ type, flags: NLM_F.none, protocol: 0, attributes }, sequence);
    bytes.writeUInt16BE(NFNL_SUBSYS_NFTABLES, HEADER_BYTES + 2);
    return bytes;
  };
  const since = generation === undefined ? [] : [attribute(NFNL_BATCH_GENID, bytesOf(generation, 4))];
  return Buffer.concat([edge(NFNL_MSG_BATCH_BEGIN, ...since), ...messages, edge(NFNL_MSG_BATCH_END)]);
}

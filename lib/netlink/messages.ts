import type { Family } from '../cidr/address.ts';
import { malformed } from './error.ts';

/**
 * A part of what the kernel has sent, valid until the next message is received. To make a Buffer of each part would take
 * longer than all the rest of reading.
 */
export interface Span {
  readonly bytes: Buffer;
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
  /** The bytes of the payload, for who reads very many numbers: methods of Buffer take twice as long. */
  readonly numbers: DataView;
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
export const NFT_SET = { interval: 0x4, map: 0x8, concat: 0x80 } as const;

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
export const NLA_TYPE_MASK = 0x3fff;

/** NLMSG_ALIGNTO and NLA_ALIGNTO. */
export function aligned(length: number): number {
  return (length + 3) & ~3;
}

/** The length of a part that begins with a header, and that with the length of both. It must fit. */
function lengthAt(bytes: Buffer, at: number, end: number, headerBytes: 4 | 16): number {
  const rest = end - at;
  const lengthBytes = headerBytes === HEADER_BYTES ? 4 : 2;
  const length = rest < headerBytes ? 0 : bytes.readUIntLE(at, lengthBytes);
  if (length < headerBytes || length > rest) throw malformed(`${length} bytes in the space of ${rest}`);
  return length;
}

/** The messages in what the kernel sent at once. */
export function messagesIn(bytes: Buffer): readonly Message[] {
  const messages: Message[] = [];
  const numbers = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length; ) {
    const length = lengthAt(bytes, at, bytes.length, HEADER_BYTES);
    messages.push({
      type: bytes.readUInt16LE(at + 4),
      sequence: bytes.readUInt32LE(at + 8),
      port: bytes.readUInt32LE(at + 12),
      payload: { bytes, start: at + HEADER_BYTES, end: at + length },
      numbers,
    });
    at += aligned(length);
  }
  return messages;
}

/** The attributes of a message, behind a header, by default that of netfilter. */
export function attributesOf(
  { payload: { bytes, start, end } }: Message,
  headerBytes = NFGENMSG_BYTES,
): Span {
  if (end - start < headerBytes) throw malformed('a message without a header');
  return { bytes, start: start + headerBytes, end };
}

/** All attributes in order: those of a list have the same type. None if what could hold them is missing. */
export function attributesIn(attributes: Span | undefined): readonly Attribute[] {
  const found: Attribute[] = [];
  const { bytes, start, end } = attributes ?? NOTHING;
  for (let at = start; at < end; ) {
    const length = lengthAt(bytes, at, end, ATTRIBUTE_HEADER_BYTES);
    found.push({ type: typeAt(bytes, at), bytes, start: at + ATTRIBUTE_HEADER_BYTES, end: at + length });
    at += aligned(length);
  }
  return found;
}

/** The payload of the first attribute of a type; undefined if there is none, or what could hold it is missing. */
export function find(attributes: Span | undefined, type: number): Span | undefined {
  const { bytes, start, end } = attributes ?? NOTHING;
  for (let at = start; at < end; ) {
    const length = lengthAt(bytes, at, end, ATTRIBUTE_HEADER_BYTES);
    if (typeAt(bytes, at) === type) return { bytes, start: at + ATTRIBUTE_HEADER_BYTES, end: at + length };
    at += aligned(length);
  }
  return undefined;
}

function typeAt(bytes: Buffer, at: number): number {
  return bytes.readUInt16LE(at + 2) & NLA_TYPE_MASK;
}

const NOTHING: Span = { bytes: Buffer.alloc(0), start: 0, end: 0 };

/** A payload that must have so many bytes. */
function exactly(payload: Span | undefined, length: number): Span {
  const span = payload ?? NOTHING;
  if (span.end - span.start !== length)
    throw malformed(`${span.end - span.start} bytes instead of ${length}`);
  return span;
}

/** A payload that must be a number of so many bytes. Those of netfilter have the highest byte first. */
export function uint(payload: Span | undefined, length: 1 | 2 | 4 = 4): number {
  const { bytes, start } = exactly(payload, length);
  return bytes.readUIntBE(start, length);
}

/** The same of a number that may be larger, such as an address. */
export function bigUint(payload: Span | undefined, length: number): bigint {
  const { bytes, start, end } = exactly(payload, length);
  if (length === 4) return BigInt(bytes.readUInt32BE(start));
  if (length === 8) return bytes.readBigUInt64BE(start);
  if (length === 16) return (bytes.readBigUInt64BE(start) << 64n) | bytes.readBigUInt64BE(start + 8);
  return BigInt(`0x${bytes.toString('hex', start, end)}`);
}

/** A payload that must be a number of 4 bytes in the order of the machine. Those of rtnetlink are. */
export function hostUint(payload: Span | undefined): number {
  const { bytes, start } = exactly(payload, 4);
  return bytes.readUInt32LE(start);
}

/** A payload that must be a text, with a zero byte at its end. */
export function text(payload: Span | undefined): string {
  const { bytes, start, end } = payload ?? NOTHING;
  if (start === end || bytes[end - 1] !== 0) throw malformed('a text without an end');
  return bytes.toString('utf8', start, end - 1);
}

/** The kernel's error number in NLMSG_ERROR or NLMSG_DONE; 0 for success. */
export function errnoIn({ payload: { bytes, start, end } }: Message): number {
  if (end - start < 4) throw malformed('an end without an error number');
  return 0 - bytes.readInt32LE(start);
}

/** NLMSGERR_ATTR_OFFS, behind the error number and the header of the refused message (NETLINK_CAP_ACK). */
const ERROR_OFFSET = { type: 2, start: 4 + HEADER_BYTES } as const;

/** Where in the refused message is what the kernel refuses (NETLINK_EXT_ACK); undefined if it does not say that. */
export function offsetIn({ payload: { bytes, start, end } }: Message): number | undefined {
  const parts = { bytes, start: Math.min(start + ERROR_OFFSET.start, end), end };
  const offset = find(parts, ERROR_OFFSET.type);
  return offset && hostUint(offset);
}

/** A number to send, with the highest byte first. */
export function bytesOf(value: bigint | number, length: number): Buffer {
  return Buffer.from(value.toString(16).padStart(2 * length, '0'), 'hex');
}

/** An attribute to send: of bytes, of a text, or of attributes. */
export function attribute(type: number, content: Buffer | string | readonly Buffer[]): Buffer {
  if (typeof content === 'string') return attribute(type, Buffer.from(`${content}\0`));
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

import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Attribute, aligned, attributesIn, findIn, type Slice, text, Writer } from './attributes.ts';
import { malformed } from './error.ts';

/** A message (`struct nlmsghdr` in linux/netlink.h): its header and its payload. */
export interface Message extends Slice {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** The port of the socket that asked. */
  readonly port: number;
}

const HEADER_BYTES = 16;

/** The payload of a message of nfnetlink begins with `struct nfgenmsg` (linux/netfilter/nfnetlink.h). */
const NFGENMSG_BYTES = 4;
const NFNL_SUBSYS_NFTABLES = 10;

export const NLMSG_NOOP = 1;
export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;
export const NLMSG_OVERRUN = 4;

/** What a request asks for, beside NLM_F_REQUEST. */
export const FLAGS = { none: 0, ack: 0x4, dump: 0x300, create: 0x400, createExclusive: 0x600 } as const;
const NLM_F_REQUEST = 0x1;
export const NLM_F_DUMP_INTR = 0x10;
const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;

/** NFPROTO_IPV4 and NFPROTO_IPV6 in linux/netfilter.h. */
export const PROTOCOLS = { IPv4: 2, IPv6: 10 } as const;

/** Messages of nf_tables (linux/netfilter/nf_tables.h), with their subsystem. */
export const NFT_MSG = {
  newTable: nftables(0),
  getTable: nftables(1),
  newChain: nftables(3),
  getChain: nftables(4),
  newRule: nftables(6),
  getRule: nftables(7),
  newSet: nftables(9),
  getSet: nftables(10),
  newSetElement: nftables(12),
  getSetElement: nftables(13),
  deleteSetElement: nftables(14),
  newGeneration: nftables(15),
  getGeneration: nftables(16),
} as const;

function nftables(message: number): number {
  return (NFNL_SUBSYS_NFTABLES << 8) | message;
}

/**
 * The messages in what the kernel sent at once.
 *
 * @throws {NetlinkError} if they do not fill it exactly
 */
export function messagesIn({ buffer, from, to }: Slice): readonly Message[] {
  const messages: Message[] = [];
  for (let at = from; at < to; ) {
    const length = to - at < HEADER_BYTES ? 0 : buffer.readUInt32LE(at);
    if (length < HEADER_BYTES || length > to - at) throw malformed(`a message of ${length} bytes`);
    messages.push({
      type: buffer.readUInt16LE(at + 4),
      flags: buffer.readUInt16LE(at + 6),
      sequence: buffer.readUInt32LE(at + 8),
      port: buffer.readUInt32LE(at + 12),
      buffer,
      from: at + HEADER_BYTES,
      to: at + length,
    });
    at += aligned(length);
  }
  return messages;
}

/** The attributes of a message of nf_tables, which follow `struct nfgenmsg`. */
export function attributesOf({ buffer, from, to }: Message): readonly Attribute[] {
  return attributesIn({ buffer, from: from + NFGENMSG_BYTES, to: Math.max(to, from + NFGENMSG_BYTES) });
}

/** The last 16 bits of the generation that the reply is of: nf_tables sets `res_id` of `struct nfgenmsg` so. */
export function generationOf({ buffer, from, to }: Message): number {
  if (to - from < NFGENMSG_BYTES) throw malformed('no header of nfnetlink');
  return buffer.readUInt16BE(from + 2);
}

/** What NLMSG_ERROR or NLMSG_DONE says: the error of the kernel, 0 for success, and its explanation. */
export interface Outcome {
  readonly errno: number;
  readonly said: string;
}

const NLMSGERR_ATTR_MSG = 1;

/** Reads `struct nlmsgerr`, and what NETLINK_EXT_ACK adds. NLMSG_DONE has the error without the request. */
export function outcomeOf({ type, flags, buffer, from, to }: Message): Outcome {
  if (to - from < 4) throw malformed('an outcome without an error number');
  const errno = 0 - buffer.readInt32LE(from);
  if (!(flags & NLM_F_ACK_TLVS)) return { errno, said: '' };
  let at = from + 4;
  if (type === NLMSG_ERROR) {
    if (to - at < HEADER_BYTES) throw malformed('an error without its request');
    at += flags & NLM_F_CAPPED ? HEADER_BYTES : aligned(buffer.readUInt32LE(at));
  }
  const said = findIn({ buffer, from: Math.min(at, to), to }, NLMSGERR_ATTR_MSG);
  return { errno, said: said === undefined ? '' : text(said) };
}

/** What a message begins with. */
export interface Header {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** 0 for any family. */
  readonly protocol: number;
  /** The subsystem of a batch. */
  readonly resource?: number;
}

const NFNL_MSG_BATCH_BEGIN = 0x10;
const NFNL_MSG_BATCH_END = 0x11;

/** Adds a message with the attributes that `content` adds. */
export function writeMessage(writer: Writer, header: Header, content: () => void = () => {}): void {
  const at = writer.reserve(HEADER_BYTES + NFGENMSG_BYTES);
  content();
  const { bytes } = writer;
  bytes.writeUInt32LE(bytes.length - at, at);
  bytes.writeUInt16LE(header.type, at + 4);
  bytes.writeUInt16LE(header.flags | NLM_F_REQUEST, at + 6);
  bytes.writeUInt32LE(header.sequence, at + 8);
  bytes.writeUInt8(header.protocol, at + HEADER_BYTES);
  bytes.writeUInt16BE(header.resource ?? 0, at + HEADER_BYTES + 2);
}

/** A message of a batch. */
export type BatchMessage = Omit<Header, 'sequence' | 'resource'> & { readonly content: (to: Writer) => void };

/**
 * A batch: the kernel carries out all messages in it, or none. It answers the last one; it answers others only if they
 * fail. Between messages, other events have their turn.
 *
 * @param sequence the number of the message before the first one
 */
export async function writeBatch(messages: readonly BatchMessage[], sequence: number): Promise<Buffer> {
  const writer = new Writer();
  const edge = { flags: FLAGS.none, protocol: 0, resource: NFNL_SUBSYS_NFTABLES };
  writeMessage(writer, { ...edge, type: NFNL_MSG_BATCH_BEGIN, sequence });
  for (const [index, { content, ...header }] of messages.entries()) {
    if (index > 0) await nextTurn();
    const flags = header.flags | (index === messages.length - 1 ? FLAGS.ack : 0);
    writeMessage(writer, { ...header, flags, sequence: sequence + 1 + index }, () => content(writer));
  }
  writeMessage(writer, { ...edge, type: NFNL_MSG_BATCH_END, sequence: sequence + 1 + messages.length });
  return writer.bytes;
}

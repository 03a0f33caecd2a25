import { malformed } from './error.ts';

/** A part of a buffer with messages. It is valid until the buffer is filled again. */
export interface Slice {
  readonly buffer: Buffer;
  readonly from: number;
  readonly to: number;
}

/** An attribute of a message (`struct nlattr` in linux/netlink.h): its payload and its type without flags. */
export interface Attribute extends Slice {
  readonly type: number;
}

const HEADER_BYTES = 4;
const LARGEST = 0xffff;

/** NLA_F_NESTED and NLA_F_NET_BYTEORDER are flags of the type. nf_tables sets them in few of its replies. */
const NLA_F_NESTED = 0x8000;
const NLA_TYPE_MASK = 0x3fff;

/** NLA_ALIGNTO and NLMSG_ALIGNTO. */
export function aligned(length: number): number {
  return (length + 3) & ~3;
}

/**
 * The attributes in a message or in an attribute.
 *
 * @throws {NetlinkError} if they do not fill it exactly
 */
export function attributesIn({ buffer, from, to }: Slice): readonly Attribute[] {
  const attributes: Attribute[] = [];
  for (let at = from; at < to; ) {
    const length = to - at < HEADER_BYTES ? 0 : buffer.readUInt16LE(at);
    if (length < HEADER_BYTES || length > to - at) throw malformed(`an attribute of ${length} bytes`);
    const type = buffer.readUInt16LE(at + 2) & NLA_TYPE_MASK;
    attributes.push({ type, buffer, from: at + HEADER_BYTES, to: at + length });
    at += aligned(length);
  }
  return attributes;
}

/** The first attribute of a type in a message or in an attribute; undefined if there is none. */
export function findIn(slice: Slice | undefined, type: number): Attribute | undefined {
  return slice === undefined ? undefined : attributesIn(slice).find((one) => one.type === type);
}

/** A number of 32 bits; those of nf_tables are big-endian. */
export function u32(attribute: Attribute | undefined): number {
  return sized(attribute, 4).readUInt32BE(attribute?.from);
}

/** A number of 64 bits. */
export function u64(attribute: Attribute | undefined): bigint {
  return sized(attribute, 8).readBigUInt64BE(attribute?.from);
}

function sized(attribute: Attribute | undefined, bytes: number): Buffer {
  if (attribute === undefined) throw malformed('an attribute is missing');
  const { type, buffer, from, to } = attribute;
  if (to - from !== bytes) throw malformed(`attribute ${type} has ${to - from} bytes, not ${bytes}`);
  return buffer;
}

/** A text that ends with a zero byte. */
export function text(attribute: Attribute | undefined): string {
  if (attribute === undefined) throw malformed('an attribute is missing');
  const { type, buffer, from, to } = attribute;
  if (to === from || buffer[to - 1] !== 0) throw malformed(`attribute ${type} is not a text`);
  return buffer.toString('utf8', from, to - 1);
}

/** The attribute with its header, as a text of one character for each byte, to compare it with others. */
export function raw({ buffer, from, to }: Attribute): string {
  return buffer.toString('latin1', from - HEADER_BYTES, to);
}

/** Writes messages and attributes one after the other. */
export class Writer {
  #buffer = Buffer.alloc(256);
  #length = 0;

  /** What was written. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Adds bytes that are zero, and returns where they begin. */
  reserve(bytes: number): number {
    const at = this.#length;
    this.#length += aligned(bytes);
    if (this.#length > this.#buffer.length) {
      const larger = Buffer.alloc(2 * this.#length);
      this.#buffer.copy(larger);
      this.#buffer = larger;
    }
    return at;
  }

  /** Adds an attribute, whose payload is zero, and returns where the payload begins. */
  attribute(type: number, bytes: number): number {
    const at = this.reserve(HEADER_BYTES + bytes);
    this.#buffer.writeUInt16LE(HEADER_BYTES + bytes, at);
    this.#buffer.writeUInt16LE(type, at + 2);
    return at + HEADER_BYTES;
  }

  text(type: number, value: string): void {
    const at = this.attribute(type, Buffer.byteLength(value) + 1);
    this.#buffer.write(value, at);
  }

  u32(type: number, value: number): void {
    const at = this.attribute(type, 4);
    this.#buffer.writeUInt32BE(value, at);
  }

  /** A number with so many bytes. */
  address(type: number, value: bigint, bytes: 4 | 16): void {
    const at = this.attribute(type, bytes);
    if (bytes === 4) {
      this.#buffer.writeUInt32BE(Number(value), at);
    } else {
      this.#buffer.writeBigUInt64BE(value >> 64n, at);
      this.#buffer.writeBigUInt64BE(BigInt.asUintN(64, value), at + 8);
    }
  }

  /** An attribute of the attributes that `content` adds. */
  nested(type: number, content: () => void): void {
    const at = this.attribute(type | NLA_F_NESTED, 0) - HEADER_BYTES;
    content();
    const length = this.#length - at;
    if (length > LARGEST) throw new RangeError(`an attribute of ${length} bytes`);
    this.#buffer.writeUInt16LE(length, at);
  }
}

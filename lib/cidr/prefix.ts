import type { Advice } from '../text/advice.ts';
import {
  ADDRESS_BITS,
  type Family,
  familyOf,
  formatAddress,
  normalizeIPv6,
  valueOfIPv4,
  valueOfIPv6,
} from './address.ts';

/** A network: every address whose first `length` bits equal those of `address`. */
export interface Prefix {
  readonly family: Family;
  /** The network address as an unsigned number; its host bits are zero. */
  readonly address: bigint;
  /** 0 to 32 (IPv4) or 0 to 128 (IPv6). */
  readonly length: number;
  /** The canonical text (IPv6: RFC 5952): equal prefixes have equal texts. */
  readonly text: string;
}

export type ParsedPrefix = { readonly prefix: Prefix } | { readonly error: Advice };

const IPV4_MAPPED = 0xffffn; // the first 96 bits of ::ffff:0:0/96, RFC 4291 section 2.5.5.2

/** Reads a canonical network address in CIDR notation (RFC 4632, RFC 4291); rejects every ambiguous text. */
export function parsePrefix(text: string): ParsedPrefix {
  if (text === '') return invalid('is empty', 'remove the item, or write a CIDR such as 10.0.0.0/8');
  // Most texts are such: to compile the expression with names of Unicode takes 1 ms.
  const bare = /^[\w.:/%+-]*$/.test(text) ? text : text.replace(/[\p{White_Space}\p{Cc}\p{Cf}]/gu, '');
  if (bare !== text) return invalid('contains white space or invisible characters', suggestion(bare));
  const [address = '', length, ...rest] = text.split('/');
  if (length === undefined) return withoutLength(text);
  if (rest.length > 0)
    return invalid('has more than one "/"', 'write one network and one prefix length per item');
  const family = familyOf(address);
  const bits = Number(length);
  if (family === undefined || !/^(?:0|[1-9]\d*)$/.test(length) || bits > ADDRESS_BITS[family])
    return misspelt(text, family);

  const normalized = family === 'IPv6' ? normalizeIPv6(address) : address;
  const value = family === 'IPv6' ? valueOfIPv6(normalized) : valueOfIPv4(normalized);
  if (family === 'IPv6' && value >> 32n === IPV4_MAPPED) return ipv4Mapped(value, bits);

  const network = truncate(value, bits, family);
  if (network !== value) {
    const whole = prefixAt(family, network, bits).text;
    return invalid(
      `is not a network address: bits after /${bits} are set`,
      `write ${whole} for the whole network, or ${normalized}/${ADDRESS_BITS[family]} for this one address`,
    );
  }
  return { prefix: { family, address: value, length: bits, text: `${normalized}/${bits}` } };
}

/** Where packets go, and where they come from. */
export interface Traffic {
  readonly prefix: Prefix;
  /** Undefined for packets from anywhere. Of the same family. */
  readonly from?: Prefix | undefined;
}

/** `8.0.0.0/8`, or `8.0.0.0/8 from 10.244.0.0/16`. */
export function trafficText({ prefix, from }: Traffic): string {
  return from === undefined ? prefix.text : `${prefix.text} from ${from.text}`;
}

export function splitTraffic(text: string): { readonly to: string; readonly from: string | undefined } {
  const [, to = text, from] = /^(.*?) +from +(.*)$/s.exec(text) ?? [];
  return { to, from };
}

/** The prefix of that length and network address; its host bits must be zero. */
export function prefixAt(family: Family, address: bigint, length: number): Prefix {
  return { family, address, length, text: `${formatAddress({ family, value: address })}/${length}` };
}

/** Whether every address of `inner` is in `outer` (true for equal ones). */
export function covers(outer: Prefix, inner: Prefix): boolean {
  if (outer.family !== inner.family || outer.length > inner.length) return false;
  return truncate(inner.address, outer.length, outer.family) === outer.address;
}

export function overlap(a: Prefix, b: Prefix): boolean {
  return covers(a, b) || covers(b, a);
}

/** The first `length` bits of an address; the other bits are zero. */
export function truncate(address: bigint, length: number, family: Family): bigint {
  return address - BigInt.asUintN(ADDRESS_BITS[family] - length, address);
}

function invalid(message: string, remedy: string): ParsedPrefix {
  return { error: { message, remedy } };
}

/** "write X" if X is right; if not, what to do about X. */
function suggestion(text: string): string {
  const parsed = parsePrefix(text);
  return 'prefix' in parsed ? `write ${parsed.prefix.text}` : parsed.error.remedy;
}

function withoutLength(text: string): ParsedPrefix {
  const family = familyOf(text.replace(/%.*/, ''));
  if (family === undefined) {
    return invalid('is not a CIDR', 'write a network and its prefix length, such as 10.0.0.0/8');
  }
  return invalid('has no prefix length', suggestion(`${text}/${ADDRESS_BITS[family]}`));
}

/** What does not belong into a CIDR, and what is there too much. */
const MISTAKES: readonly (readonly [message: string, wrong: RegExp])[] = [
  ['has a zone id', /%[^/]*/g],
  ['has a sign', /(?<!\w)[+-](?=[\da-f:])/gi],
  // inet_aton(3) reads 010 as octal, other readers as decimal: the agent does not guess.
  ['has leading zeros', /\b0+(?=\d+(?:[./][\d./]*)?$)/g],
];

/** @param family of what is before the "/"; undefined if that is no address */
function misspelt(text: string, family: Family | undefined): ParsedPrefix {
  for (const [message, wrong] of MISTAKES) {
    const right = text.replace(wrong, '');
    if (right !== text) return invalid(message, suggestion(right));
  }
  if (family === undefined)
    return invalid('is not a CIDR', 'write a network and its prefix length, such as 10.0.0.0/8 or fd00::/8');
  const bits = ADDRESS_BITS[family];
  const message = `has a prefix length that is not a number from 0 to ${bits}`;
  return invalid(message, `write a number from 0 to ${bits} after the "/"`);
}

function ipv4Mapped(value: bigint, length: number): ParsedPrefix {
  const octets = [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join('.');
  const remedy = length >= 96 ? suggestion(`${octets}/${length - 96}`) : 'write the IPv4 network itself';
  return invalid('is an IPv4-mapped IPv6 address, which never appears on the wire', remedy);
}

import { isIPv4, isIPv6 } from 'node:net';
import IPCIDR from 'ip-cidr';

export type Family = 'IPv4' | 'IPv6';

/** Bits in an address of each family. */
export const ADDRESS_BITS: Readonly<Record<Family, number>> = { IPv4: 32, IPv6: 128 };

export interface Address {
  readonly family: Family;
  /** The address as an unsigned number, most significant bit first. */
  readonly value: bigint;
}

/** An IP address as a value; undefined where the text is none. A zone id (RFC 4007) makes it none. */
export function parseAddress(text: string): Address | undefined {
  const family = familyOf(text);
  if (family === undefined) return undefined;
  const address = IPCIDR.createAddress(family === 'IPv6' ? normalizeIPv6(text) : text);
  return { family, value: IPCIDR.formatIP<bigint>(address, { type: 'bigInteger' }) };
}

/** The family of an address that stands alone, without zone id and without leading zeros. */
export function familyOf(text: string): Family | undefined {
  if (isIPv4(text)) return 'IPv4';
  return isIPv6(text) && !text.includes('%') ? 'IPv6' : undefined;
}

/** IPv6 text in the one form that RFC 5952 recommends, never dotted. The text must be a valid address. */
export function normalizeIPv6(text: string): string {
  return new URL(`http://[${text}]`).hostname.slice(1, -1);
}

import { isIPv4, isIPv6 } from 'node:net';

export type Family = 'IPv4' | 'IPv6';

/** Bits in an address of each family. */
export const ADDRESS_BITS: Readonly<Record<Family, number>> = { IPv4: 32, IPv6: 128 };

/** How an address is written: groups of so many bits, each a number, with a separator between. */
const NOTATION = {
  IPv4: { groups: 4, bits: 8n, radix: 10, separator: '.' },
  IPv6: { groups: 8, bits: 16n, radix: 16, separator: ':' },
} as const;

export interface Address {
  readonly family: Family;
  /** The address as an unsigned number, most significant bit first. */
  readonly value: bigint;
}

/** An IP address as a value; undefined where the text is none. A zone id (RFC 4007) makes it none. */
export function parseAddress(text: string): Address | undefined {
  const family = familyOf(text);
  if (family === undefined) return undefined;
  return { family, value: family === 'IPv4' ? valueOfIPv4(text) : valueOfIPv6(normalizeIPv6(text)) };
}

/** The number that a valid IPv4 address stands for. */
export function valueOfIPv4(text: string): bigint {
  return BigInt(text.split('.').reduce((value, octet) => value * 256 + Number(octet), 0));
}

/** The number that an IPv6 address stands for, whose text is in the form of `normalizeIPv6`. */
export function valueOfIPv6(text: string): bigint {
  const [before = [], after = []] = text.split('::').map((side) => (side === '' ? [] : side.split(':')));
  const zeros = Array.from({ length: NOTATION.IPv6.groups - before.length - after.length }, () => '0');
  return BigInt(`0x${[...before, ...zeros, ...after].map((group) => group.padStart(4, '0')).join('')}`);
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

/** The canonical text of an address, IPv6 as RFC 5952 has it. */
export function formatAddress({ family, value }: Address): string {
  const { groups, bits, radix, separator } = NOTATION[family];
  const parts = Array.from({ length: groups }, (_, index) => {
    const shift = BigInt(groups - 1 - index) * bits;
    return ((value >> shift) & ((1n << bits) - 1n)).toString(radix);
  });
  const text = parts.join(separator);
  return family === 'IPv4' ? text : normalizeIPv6(text);
}

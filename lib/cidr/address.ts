export type Family = 'IPv4' | 'IPv6';

export const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];

/** The families in names, such as those of flags. */
export const FAMILY_NAMES = { IPv4: 'ipv4', IPv6: 'ipv6' } as const satisfies Readonly<
  Record<Family, string>
>;

export const ADDRESS_BITS: Readonly<Record<Family, number>> = { IPv4: 32, IPv6: 128 };

const IPV6_GROUPS = 8;

export interface Address {
  readonly family: Family;
  /** The address as an unsigned number, most significant bit first. */
  readonly value: bigint;
}

/** An address of the node. */
export interface OwnAddress extends Address {
  /** Of several addresses, packets leave with one of the lowest rank; absent is 0. */
  readonly rank?: number;
}

/** Reads an IP address; undefined if the text is not one. An address with a zone id (RFC 4007) is not accepted. */
export function parseAddress(text: string): Address | undefined {
  const family = familyOf(text);
  if (family === undefined) return undefined;
  return { family, value: family === 'IPv4' ? valueOfIPv4(text) : valueOfIPv6(normalizeIPv6(text)) };
}

/** The number of a valid IPv4 address. */
export function valueOfIPv4(text: string): bigint {
  return BigInt(text.split('.').reduce((value, octet) => value * 256 + Number(octet), 0));
}

/** The number of an IPv6 address in the form of `normalizeIPv6`. */
export function valueOfIPv6(text: string): bigint {
  const [before = [], after = []] = text.split('::').map((side) => (side === '' ? [] : side.split(':')));
  const zeros = Array.from({ length: IPV6_GROUPS - before.length - after.length }, () => '0');
  return BigInt(`0x${[...before, ...zeros, ...after].map((group) => group.padStart(4, '0')).join('')}`);
}

/** The family of an address without zone id and without leading zeros; undefined for any other text. */
export function familyOf(text: string): Family | undefined {
  if (isIPv4(text)) return 'IPv4';
  // The expression of node:net for IPv6 takes 4 ms to compile.
  return /^[\da-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]`) ? 'IPv6' : undefined;
}

/** Whether it is four numbers without leading zeros. */
export function isIPv4(text: string): boolean {
  return /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?=\d)|$)){4}$/.test(text);
}

/** The canonical form of a valid IPv6 address (RFC 5952), never dotted. */
export function normalizeIPv6(text: string): string {
  return new URL(`http://[${text}]`).hostname.slice(1, -1);
}

/** The canonical text of an address (IPv6: RFC 5952). */
export function formatAddress({ family, value }: Address): string {
  if (family === 'IPv4') {
    const bits = Number(value);
    return [bits >>> 24, (bits >>> 16) & 0xff, (bits >>> 8) & 0xff, bits & 0xff].join('.');
  }
  const digits = value.toString(16).padStart(4 * IPV6_GROUPS, '0');
  return normalizeIPv6(digits.replace(/.{4}(?!$)/g, '$&:'));
}

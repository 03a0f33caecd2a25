import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Prefix } from '../../../lib/cidr/prefix.ts';

export const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];

export const BITS: Readonly<Record<Family, number>> = { IPv4: 32, IPv6: 128 };

/** Addresses of all sizes, those with runs of zeros (where IPv6 texts differ) among them. */
export function anyAddress(family: Family): fc.Arbitrary<bigint> {
  const groups = family === 'IPv4' ? 4 : 8;
  const largest = family === 'IPv4' ? 0xff : 0xffff;
  const group = fc.oneof(fc.constant(0), fc.constantFrom(1, largest), fc.nat(largest));
  return fc
    .array(group, { minLength: groups, maxLength: groups })
    .map((values) => values.reduce((sum, value) => sum * BigInt(largest + 1) + BigInt(value), 0n));
}

/** Few addresses, near both ends of the address space, so that prefixes nest and repeat. */
export function crowdedAddress(family: Family): fc.Arbitrary<bigint> {
  const high = 2n ** BigInt(BITS[family] - 4);
  return fc.tuple(fc.nat(15), fc.nat(7)).map(([first, last]) => BigInt(first) * high + BigInt(last));
}

/** Prefixes of one family that often contain each other. */
export function crowdedPrefix(family: Family): fc.Arbitrary<Prefix> {
  const bits = BITS[family];
  const length = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: bits - 3, max: bits }));
  return fc.tuple(crowdedAddress(family), length).map(([address, bits]) => prefixOf(family, address, bits));
}

/** The network of that length around an address. IPv4-mapped ones, which the agent rejects, are as good here. */
export function prefixOf(family: Family, address: bigint, length: number): Prefix {
  const network = address - (address % 2n ** BigInt(BITS[family] - length));
  return { family, address: network, length, text: `${naiveText(family, network)}/${length}` };
}

/** The addresses on both sides of each edge of the prefixes, where what is said of addresses may change. */
export function borders(family: Family, prefixes: readonly Prefix[]): readonly bigint[] {
  const edges = prefixes.flatMap(({ address, length }) => [
    address,
    address + 2n ** BigInt(BITS[family] - length),
  ]);
  const isAddress = (value: bigint) => value >= 0n && value < 2n ** BigInt(BITS[family]);
  return [...new Set(edges.flatMap((edge) => [edge - 1n, edge]))].filter(isAddress);
}

/** Whether the prefix holds the address, by dividing instead of shifting. */
export function holds(prefix: Prefix, address: bigint): boolean {
  const size = 2n ** BigInt(BITS[prefix.family] - prefix.length);
  return address / size === prefix.address / size;
}

/** The longest of the prefixes that fulfil the condition; the first one where several are equally long. */
export function longest<Item extends { readonly prefix: Prefix }>(items: readonly Item[]): Item | undefined {
  let best: Item | undefined;
  for (const item of items) if (best === undefined || item.prefix.length > best.prefix.length) best = item;
  return best;
}

/** An address as RFC 5952 section 4 writes it, with arithmetic of its own. */
export function naiveText(family: Family, address: bigint): string {
  if (family === 'IPv4') return digits(address, 256n, 4).join('.');
  const groups = digits(address, 65_536n, 8);
  let best = { start: 0, length: 1 };
  for (let start = 0; start < 8; start += 1) {
    let end = start;
    while (groups[end] === 0n) end += 1;
    if (end - start > best.length) best = { start, length: end - start };
  }
  const hex = (some: readonly bigint[]): string => some.map((group) => group.toString(16)).join(':');
  if (best.length === 1) return hex(groups);
  return `${hex(groups.slice(0, best.start))}::${hex(groups.slice(best.start + best.length))}`;
}

/** The ways to write one IPv6 address: upper case, leading zeros, `::` anywhere or nowhere, a dotted end. */
export function ipv6Spelling(address: bigint): fc.Arbitrary<string> {
  return fc
    .record({
      upper: fc.boolean(),
      padding: fc.array(fc.nat(4), { minLength: 8, maxLength: 8 }),
      dotted: fc.boolean(),
      gap: fc.record({ start: fc.nat(7), length: fc.integer({ min: 1, max: 8 }) }),
    })
    .map(({ upper, padding, dotted, gap }) => {
      const values = digits(address, 65_536n, 8);
      const groups = values.map((value, index) => value.toString(16).padStart(padding[index] ?? 0, '0'));
      if (dotted) groups.splice(6, 2, digits(address % 2n ** 32n, 256n, 4).join('.'));
      const end = Math.min(gap.start + gap.length, dotted ? 6 : 8);
      const zeros = end > gap.start && values.slice(gap.start, end).every((value) => value === 0n);
      const text = zeros
        ? `${groups.slice(0, gap.start).join(':')}::${groups.slice(end).join(':')}`
        : groups.join(':');
      return upper ? text.toUpperCase() : text;
    });
}

function digits(value: bigint, base: bigint, count: number): readonly bigint[] {
  return Array.from({ length: count }, (_, index) => (value / base ** BigInt(count - 1 - index)) % base);
}

import { partitionPoint } from '../text/partition-point.ts';
import { ADDRESS_BITS, type Family, formatAddress } from './address.ts';
import { type Prefix, prefixAt } from './prefix.ts';

/** Consecutive addresses, both ends included. */
export interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

/** Any set of addresses of one family: ascending ranges that neither overlap nor touch. */
export interface RangeSet {
  readonly family: Family;
  readonly ranges: readonly Range[];
}

export function nothing(family: Family): RangeSet {
  return { family, ranges: [] };
}

export function everything(family: Family): RangeSet {
  return { family, ranges: [{ first: 0n, last: highest(family) }] };
}

export function rangeOf({ family, address, length }: Omit<Prefix, 'text'>): Range {
  return { first: address, last: address + (1n << BigInt(ADDRESS_BITS[family] - length)) - 1n };
}

/** Whether the address is in the range; both of one family. */
export function isIn(value: bigint, { first, last }: Range): boolean {
  return first <= value && value <= last;
}

/** Whether the address is in one of the ranges, which must ascend and not overlap. */
export function isInSome(value: bigint, ranges: readonly Range[]): boolean {
  return meetsSome({ first: value, last: value }, ranges);
}

/** Whether an address of the range is in one of the ranges, which must ascend and not overlap. */
export function meetsSome({ first, last }: Range, ranges: readonly Range[]): boolean {
  const range = ranges[partitionPoint(ranges, (one) => one.last < first)];
  return range !== undefined && range.first <= last;
}

/** The shortest text of a range: an address, a prefix, or the first and the last address. */
export function formatRange(family: Family, { first, last }: Range): string {
  const text = formatAddress({ family, value: first });
  if (first === last) return text;
  const hostBits = hostBitsOf({ first, last });
  return hostBits === undefined
    ? `${text}-${formatAddress({ family, value: last })}`
    : `${text}/${ADDRESS_BITS[family] - hostBits}`;
}

/** How many bits at the end are free in a range that is a prefix; undefined for any other range. */
function hostBitsOf({ first, last }: Range): number | undefined {
  const size = last - first + 1n;
  const bits = size.toString(2).length - 1;
  return size === 1n << BigInt(bits) && first % size === 0n ? bits : undefined;
}

/** How many addresses are in the ranges, which do not overlap. */
export function sizeOf(ranges: readonly Range[]): bigint {
  return ranges.reduce((sum, { first, last }) => sum + last - first + 1n, 0n);
}

/** Whether both lists, or none of them, are there, with the same ranges in the same order. */
export function sameRanges(a: readonly Range[] | undefined, b: readonly Range[] | undefined): boolean {
  if (a === b || a === undefined || b === undefined) return a === b;
  return (
    a.length === b.length &&
    a.every(({ first, last }, index) => first === b[index]?.first && last === b[index]?.last)
  );
}

/** The set of all ranges, which may have any order and may overlap. */
export function rangeSet(family: Family, ranges: readonly Range[]): RangeSet {
  const joined: Range[] = [];
  for (const { first, last } of ranges.toSorted((a, b) => (a.first < b.first ? -1 : 1))) {
    const before = joined.at(-1);
    if (before === undefined || first > before.last + 1n) joined.push({ first, last });
    else if (last > before.last) joined[joined.length - 1] = { first: before.first, last };
  }
  return { family, ranges: joined };
}

/** The addresses in at least one of the sets. Here and below, both sets must have the same family. */
export function union(a: RangeSet, b: RangeSet): RangeSet {
  return rangeSet(a.family, [...a.ranges, ...b.ranges]);
}

/** The addresses that are not in the set. */
export function complement({ family, ranges }: RangeSet): RangeSet {
  const gaps: Range[] = [];
  let next = 0n;
  for (const { first, last } of ranges) {
    if (first > next) gaps.push({ first: next, last: first - 1n });
    next = last + 1n;
  }
  if (next <= highest(family)) gaps.push({ first: next, last: highest(family) });
  return { family, ranges: gaps };
}

export function intersection(a: RangeSet, b: RangeSet): RangeSet {
  const common: Range[] = [];
  let [i, j] = [0, 0];
  for (let x = a.ranges[i], y = b.ranges[j]; x && y; x = a.ranges[i], y = b.ranges[j]) {
    const first = x.first > y.first ? x.first : y.first;
    const last = x.last < y.last ? x.last : y.last;
    if (first <= last) common.push({ first, last });
    if (x.last < y.last) i += 1;
    else j += 1;
  }
  return { family: a.family, ranges: common };
}

/** The addresses in the first set that are not in the second. */
export function difference(a: RangeSet, b: RangeSet): RangeSet {
  return intersection(a, complement(b));
}

/** The shortest list of prefixes that is exactly the set, ascending. */
export function prefixesOf({ family, ranges }: RangeSet): readonly Prefix[] {
  return ranges.flatMap((range) => [...largestBlocks(range, family)]);
}

/** Splits a range into prefixes: each is the largest that begins at the next address and ends within the range. */
function* largestBlocks({ first, last }: Range, family: Family): Generator<Prefix> {
  const bits = ADDRESS_BITS[family];
  for (let address = first; address <= last; ) {
    let hostBits = 0;
    while (hostBits < bits && fits(address, hostBits + 1, last)) hostBits += 1;
    yield prefixAt(family, address, bits - hostBits);
    address += 1n << BigInt(hostBits);
  }
}

function fits(address: bigint, hostBits: number, last: bigint): boolean {
  const size = 1n << BigInt(hostBits);
  return address % size === 0n && address + size - 1n <= last;
}

function highest(family: Family): bigint {
  return (1n << BigInt(ADDRESS_BITS[family])) - 1n;
}

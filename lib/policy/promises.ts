import type { Prefix } from '../cidr/prefix.ts';
import { formatRange, type Range, rangeOf } from '../cidr/ranges.ts';
import type { MergedConfig } from '../config/config.ts';
import { withOrigin } from '../text/origin.ts';
import { counted } from '../text/words.ts';
import { linkLocalFlag, noEntryText } from './decision.ts';
import type { Segment } from './flatten.ts';
import { type Entry, type Family, VERDICT_TEXT, type Verdict } from './policy.ts';

/** A range, all of whose addresses must have the verdict. */
export interface PromisedRange {
  readonly prefix: Prefix;
  readonly verdict: Verdict;
}

/** Consecutive addresses that have the other verdict, and the entry that decides there, if there is one. */
export interface Breach extends Range {
  readonly entry: Entry | undefined;
}

/** Where a policy breaks a promise, ascending; nothing if it keeps it. */
export function breaches(
  segments: readonly Segment[],
  { prefix, verdict }: PromisedRange,
): readonly Breach[] {
  const { first, last } = rangeOf(prefix);
  const found: Breach[] = [];
  let next = first;
  const fill = (end: bigint): void => {
    if (end > next && verdict === 'return') found.push({ first: next, last: end - 1n, entry: undefined });
  };
  for (let index = firstEndingFrom(segments, first); index < segments.length; index += 1) {
    const segment = segments[index];
    if (segment === undefined || segment.first > last) break;
    fill(segment.first);
    const common = { first: max(segment.first, first), last: min(segment.last, last) };
    if (segment.entry.verdict !== verdict) found.push({ ...common, entry: segment.entry });
    next = segment.last + 1n;
  }
  fill(last + 1n);
  return found;
}

/** The most ranges that are named one by one. */
const MAX_RANGES = 3;

/**
 * What breaks the promise, as clauses: the first ranges, each with its entry, and the number of the others.
 *
 * @param withPlaces whether to say where the entries stand
 */
export function describeBreaches(
  config: MergedConfig,
  family: Family,
  found: readonly Breach[],
  withPlaces = true,
): string {
  const shown = found.slice(0, MAX_RANGES).map(({ entry, ...range }) => {
    const verdict = VERDICT_TEXT[entry?.verdict ?? 'masquerade'];
    const why =
      entry === undefined
        ? noEntryText(family, linkLocalFlag(config, family, range))
        : `${withPlaces ? withOrigin(entry.prefix.text, entry.origin) : entry.prefix.text} decides`;
    return `${formatRange(family, range)} is ${verdict} (${why})`;
  });
  const more = found.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${counted(more, 'more range')}`] : [])].join(', ');
}

/** Where the first entry or setting stands that decides in a file. */
export function placeOf(
  config: MergedConfig,
  family: Family,
  found: readonly Breach[],
): Entry['origin'] | undefined {
  const origins = found.map(({ entry, ...range }) => (entry ?? linkLocalFlag(config, family, range))?.origin);
  return origins.find((origin) => origin?.kind === 'file');
}

/** The index of the first segment that does not end before the address. */
function firstEndingFrom(segments: readonly Segment[], value: bigint): number {
  let low = 0;
  for (let high = segments.length; low < high; ) {
    const middle = (low + high) >> 1;
    if ((segments[middle]?.last ?? value) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

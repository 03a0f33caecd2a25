import { everything, type Range, type RangeSet, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { partitionPoint } from '../text/partition-point.ts';
import { type Entry, type Policy, verdictElsewhere } from './policy.ts';

/** Consecutive addresses for which the same entry decides. */
export interface Segment extends Range {
  readonly entry: Entry;
}

/**
 * The policy without nesting, made once: ascending segments that do not overlap, each with the entry that decides there. Between
 * them, no entry decides.
 */
export function flatten({ entries }: Pick<Policy, 'entries'>): readonly Segment[] {
  const segments = flattened.get(entries) ?? segmentsOf(entries);
  flattened.set(entries, segments);
  return segments;
}

const flattened = new WeakMap<readonly Entry[], readonly Segment[]>();

function segmentsOf(entries: readonly Entry[]): readonly Segment[] {
  const segments: Segment[] = [];
  /** The entries that hold the cursor, each inside the previous one. */
  const open: (Range & { readonly entry: Entry })[] = [];
  let cursor = 0n;
  const emit = (last: bigint): void => {
    const inmost = open.at(-1);
    if (inmost !== undefined && last >= cursor) segments.push({ first: cursor, last, entry: inmost.entry });
    cursor = last + 1n;
  };
  const close = (before: bigint | undefined): void => {
    for (let top = open.at(-1); top && (before === undefined || top.last < before); top = open.at(-1)) {
      emit(top.last);
      open.pop();
    }
  };

  for (const entry of entries.toSorted(byNesting)) {
    const { first, last } = rangeOf(entry.prefix);
    close(first);
    const around = open.at(-1);
    // Of equal prefixes the first decides; sorting keeps their order.
    if (around?.first === first && around.last === last) continue;
    emit(first - 1n);
    open.push({ first, last, entry });
  }
  close(undefined);
  return segments;
}

/**
 * A range cut where another entry decides, or none: ascending, without gaps. Where no segment is, `entry` is undefined.
 *
 * @param segments as `flatten` makes them, perhaps without some
 */
export function* cutBySegments(
  segments: readonly Segment[],
  { first, last }: Range,
): Generator<Range & { readonly entry: Entry | undefined }> {
  let next = first;
  const start = partitionPoint(segments, (one) => one.last < first);
  const end = partitionPoint(segments, (one) => one.first <= last);
  for (const segment of segments.slice(start, end)) {
    if (segment.first > next) yield { first: next, last: segment.first - 1n, entry: undefined };
    yield {
      first: segment.first > next ? segment.first : next,
      last: segment.last < last ? segment.last : last,
      entry: segment.entry,
    };
    next = segment.last + 1n;
  }
  if (next <= last) yield { first: next, last, entry: undefined };
}

/** All destinations that the policy does not masquerade. */
export function notMasqueradedDestinations(policy: Policy): RangeSet {
  return rangeSet(
    policy.family,
    flatten(policy).filter(({ entry }) => entry.verdict === 'not_masqueraded'),
  );
}

/** The addresses from which packets are not left alone whatever their destination; undefined if nothing is said of sources. */
export function allowedSources({ family, from }: Pick<Policy, 'family' | 'from'>): RangeSet | undefined {
  if (from.length === 0) return undefined;
  const segments = flatten({ entries: from });
  const elsewhere = verdictElsewhere({ from });
  const decided = everything(family).ranges.flatMap((all) => [...cutBySegments(segments, all)]);
  return rangeSet(
    family,
    decided.filter(({ entry }) => (entry?.verdict ?? elsewhere) === 'masqueraded'),
  );
}

/** Orders prefixes ascending, and a wider prefix before those inside it. */
function byNesting({ prefix: a }: Entry, { prefix: b }: Entry): number {
  if (a.address !== b.address) return a.address < b.address ? -1 : 1;
  return a.length - b.length;
}

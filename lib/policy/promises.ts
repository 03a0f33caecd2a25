import type { Prefix, Way } from '../cidr/prefix.ts';
import {
  difference,
  everything,
  formatRange,
  intersection,
  type Range,
  type RangeSet,
  rangeOf,
  rangeSet,
} from '../cidr/ranges.ts';
import type { MergedConfig } from '../config/config.ts';
import { withOrigin } from '../text/origin.ts';
import { counted, few } from '../text/words.ts';
import { linkLocalFlag, noEntryText } from './decision.ts';
import { type Segment, within } from './flatten.ts';
import { type Entry, type Family, fromSet, type Policy, VERDICT_TEXT, type Verdict } from './policy.ts';

/** A verdict that all packets on a way must have. */
export interface Promised extends Way {
  readonly verdict: Verdict;
}

/** Consecutive addresses that have the other verdict, and the entry that decides there, if there is one. */
interface Breach extends Range {
  readonly entry: Entry | undefined;
}

export interface Breaches {
  /** Destinations that have the other verdict, ascending. */
  readonly destinations: readonly Breach[];
  /** Where packets come from that must be masqueraded, but are left alone whatever their destination; ascending. */
  readonly elsewhere: readonly Range[];
}

/** What breaks a promise; undefined if the policy keeps it. */
export function breaches(
  policy: Policy,
  segments: readonly Segment[],
  promise: Promised,
): Breaches | undefined {
  const meant = promise.from === undefined ? everything(policy.family) : setOf(promise.from);
  const listed = fromSet(policy) ?? everything(policy.family);
  const isConcerned = intersection(meant, listed).ranges.length > 0;
  const destinations = isConcerned ? wrongDestinations(segments, promise) : [];
  const elsewhere = promise.verdict === 'masqueraded' ? difference(meant, listed).ranges : [];
  return destinations.length + elsewhere.length === 0 ? undefined : { destinations, elsewhere };
}

function setOf(prefix: Prefix): RangeSet {
  return rangeSet(prefix.family, [rangeOf(prefix)]);
}

function wrongDestinations(segments: readonly Segment[], { prefix, verdict }: Promised): readonly Breach[] {
  const decided = Array.from(within(segments, rangeOf(prefix)));
  return decided.filter(({ entry }) => (entry?.verdict ?? 'masqueraded') !== verdict);
}

const MAX_RANGES = 3;

/**
 * What breaks the promise, as clauses: the first ranges, each with its entry, and the number of the others.
 *
 * @param withPlaces whether to say where the entries stand
 */
export function describeBreaches(
  config: MergedConfig,
  family: Family,
  { destinations, elsewhere }: Breaches,
  withPlaces = true,
): string {
  const decidedText = ({ entry, ...range }: Breach) => {
    const verdict = VERDICT_TEXT[entry?.verdict ?? 'masqueraded'];
    const why =
      entry === undefined
        ? noEntryText(family, linkLocalFlag(config, family, range))
        : `${withPlaces ? withOrigin(entry.prefix.text, entry.origin) : entry.prefix.text} decides`;
    return `${formatRange(family, range)} is ${verdict} (${why})`;
  };
  const clauses = few(destinations, MAX_RANGES, decidedText, moreText);
  if (elsewhere.length === 0) return clauses.join(', ');
  const sources = few(elsewhere, MAX_RANGES, (range) => formatRange(family, range), moreText).join(', ');
  return [
    ...clauses,
    `masqueradeFromCIDRs does not list ${sources}: packets from there are not masqueraded`,
  ].join('; ');
}

function moreText(more: number): string {
  return `and ${counted(more, 'more range')}`;
}

/** Where the first entry or setting stands that decides in a file. */
export function placeOf(
  config: MergedConfig,
  family: Family,
  { destinations }: Breaches,
): Entry['origin'] | undefined {
  const deciding = destinations.map(({ entry, ...range }) => entry ?? linkLocalFlag(config, family, range));
  const from = config.masqueradeFromCIDRs.filter(({ value }) => value.family === family);
  const origins = (destinations.length > 0 ? deciding : from).map((one) => one?.origin);
  return origins.find((origin) => origin?.kind === 'file');
}

import type { Prefix, Traffic } from '../cidr/prefix.ts';
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
import { counted, truncated } from '../text/words.ts';
import { flagOf, noEntryText } from './decision.ts';
import { allowedSources, cutBySegments, flatten, type Segment } from './flatten.ts';
import { type Entry, type Family, type Policy, VERDICT_TEXT, type Verdict } from './policy.ts';

/** A verdict that all packets of some traffic must have. */
export interface Assertion extends Traffic {
  readonly verdict: Verdict;
}

/** Consecutive addresses that have the other verdict, and the entry that decides there, if there is one. */
interface Breach extends Range {
  readonly entry: Entry | undefined;
}

export interface Breaches {
  /** Destinations that have the other verdict, ascending. */
  readonly destinations: readonly Breach[];
  /** Sources whose packets must be masqueraded, but are left alone whatever their destination; ascending. */
  readonly sourcesLeftAlone: readonly Breach[];
}

/**
 * What breaks an assertion; undefined if the policy fulfils it.
 *
 * @param segments `flatten(policy)`, which is made once for all assertions
 */
export function breaches(
  policy: Policy,
  segments: readonly Segment[],
  assertion: Assertion,
): Breaches | undefined {
  const meant = assertion.from === undefined ? everything(policy.family) : setOf(assertion.from);
  const listed = allowedSources(policy) ?? everything(policy.family);
  const isConcerned = intersection(meant, listed).ranges.length > 0;
  const destinations = isConcerned ? wrongDestinations(segments, assertion) : [];
  const leftAlone = assertion.verdict === 'masqueraded' ? difference(meant, listed).ranges : [];
  const said = flatten({ entries: policy.from });
  const sourcesLeftAlone = leftAlone.flatMap((range) => [...cutBySegments(said, range)]);
  return destinations.length + sourcesLeftAlone.length === 0 ? undefined : { destinations, sourcesLeftAlone };
}

function setOf(prefix: Prefix): RangeSet {
  return rangeSet(prefix.family, [rangeOf(prefix)]);
}

function wrongDestinations(segments: readonly Segment[], { prefix, verdict }: Assertion): readonly Breach[] {
  const decided = Array.from(cutBySegments(segments, rangeOf(prefix)));
  return decided.filter(({ entry }) => (entry?.verdict ?? 'masqueraded') !== verdict);
}

const MAX_RANGES = 3;

/** What breaks the assertion, as clauses: the first ranges, each with its entry, and the number of the others. */
export function describeBreaches(
  config: MergedConfig,
  family: Family,
  { destinations, sourcesLeftAlone }: Breaches,
): string {
  const decidedText = ({ entry, ...range }: Breach) => {
    const verdict = VERDICT_TEXT[entry?.verdict ?? 'masqueraded'];
    const why =
      entry === undefined
        ? noEntryText(flagOf(config, family, range))
        : `${withOrigin(entry.prefix.text, entry.origin)} decides`;
    return `${formatRange(family, range)} is ${verdict} (${why})`;
  };
  const clauses = truncated(destinations, MAX_RANGES, decidedText, moreText);
  if (sourcesLeftAlone.length === 0) return clauses.join(', ');
  const why = [
    ['masqueradeFromCIDRs does not list', sourcesLeftAlone.filter(({ entry }) => entry === undefined)],
    ['nonMasqueradeFromCIDRs lists', sourcesLeftAlone.filter(({ entry }) => entry !== undefined)],
  ] as const;
  const sources = why.flatMap(([reason, ranges]) => {
    const texts = truncated(ranges, MAX_RANGES, (one) => formatRange(family, one), moreText).join(', ');
    return ranges.length === 0 ? [] : `${reason} ${texts}: packets from there are not masqueraded`;
  });
  return [...clauses, ...sources].join('; ');
}

function moreText(more: number): string {
  return `and ${counted(more, 'more range')}`;
}

/** Where the first entry or setting stands that decides in a file. */
export function decidingOrigin(
  config: MergedConfig,
  family: Family,
  { destinations, sourcesLeftAlone }: Breaches,
): Entry['origin'] | undefined {
  const deciding = destinations.map(({ entry, ...range }) => entry ?? flagOf(config, family, range));
  const from = [
    ...sourcesLeftAlone.map(({ entry }) => entry),
    ...config.masqueradeFromCIDRs.filter(({ value }) => value.family === family),
  ];
  const origins = (destinations.length > 0 ? deciding : from).map((one) => one?.origin);
  return origins.find((origin) => origin?.kind === 'file');
}

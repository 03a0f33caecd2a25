import { createHash } from 'node:crypto';
import type { Family } from '../cidr/address.ts';
import { covers, type Prefix, parsePrefix } from '../cidr/prefix.ts';
import { difference, intersection, prefixesOf, rangeOf, rangeSet, sizeOf, union } from '../cidr/ranges.ts';
import type { ConfigOptions } from '../config/config.ts';
import { commentText } from '../config/config-file-lines.ts';
import { printable, quote } from '../text/escape.ts';
import { partitionPoint } from '../text/partition-point.ts';
import { counted, countedAddresses, truncatedText } from '../text/words.ts';
import { type Claim, MOST_ADDRESSES } from './claims.ts';
import { type LastUse, timeText } from './last-use.ts';

export interface Options {
  /** The ranges in which claims must be, but for those of the command line. */
  readonly within: readonly Prefix[];
  /** How long a range stays after its last use, in milliseconds. */
  readonly grace: number;
  /** The most percent of the addresses of a family that may leave the list at once. */
  readonly mostRemoved: number;
  /** How the agents read config files. An entry of a family for which they keep no rules would end them. */
  readonly config: ConfigOptions;
}

export interface Situation {
  readonly claims: readonly Claim[];
  /** What was in the list, by what is known of its last use; none before the first list. */
  readonly last: readonly LastUse[];
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Whether a first list changes nothing about RFC 1918: another config file lists what is left alone. */
  readonly hasOtherFiles: boolean;
  /** The removals that a person has accepted, by their hash. */
  readonly accepted: string | undefined;
}

/** An entry of the list, and where it is from. */
export interface ListedRange {
  readonly prefix: Prefix;
  readonly comment: string;
}

export interface Rejected {
  readonly claim: Claim;
  /** The end of a sentence. */
  readonly why: string;
}

/** Why nothing is written. Labels of a metric. */
export const REASONS = {
  unreadable: 'the API server does not answer, a right is missing, or an object cannot be understood',
  unwritable: 'the API server refuses the ConfigMap',
  'not-ours': 'another program or person has written the ConfigMap',
  'no-ranges': 'no source names the ranges of pods',
  'first-list': 'there is no other config file, so with this list RFC 1918 would be masqueraded',
  'too-many': 'the list is longer than the agents accept',
  'removes-too-much': 'more addresses than `--most-removed` allows would leave the list at once',
  conflict: 'the agents would not accept the list together with the other config files',
} as const;

export interface Refusal {
  readonly reason: keyof typeof REASONS;
  /** What happened, and what to do. */
  readonly message: string;
}

export interface ListPlan {
  readonly entries: readonly ListedRange[];
  /** What was used when. */
  readonly use: readonly LastUse[];
  readonly rejected: readonly Rejected[];
  /** Why the list must not be written. */
  readonly refusal?: Refusal | undefined;
}

/** A part of an entry, and who gives it, or since when nobody does. */
interface Part {
  readonly prefix: Prefix;
  readonly by: string;
  readonly kind?: Claim['kind'];
}

/** Decides about the list. Whatever objects say, what was used within the grace stays, and nothing is in that is not bounded. */
export function decide(situation: Situation, options: Options): ListPlan {
  const { families } = options.config;
  const parts: Part[] = [];
  const rejected: Rejected[] = [];
  for (const claim of situation.claims) {
    const judged = judge(claim, options);
    if (typeof judged === 'string') rejected.push({ claim, why: judged });
    else if (families.includes(judged.family)) parts.push({ ...claim, prefix: judged });
  }
  const lists = families.map((family) => listOf(family, parts, situation, options));
  const entries = lists.flatMap((list) => list.entries);
  const use = lists.flatMap((list) => list.use);
  const kinds = new Set(parts.map(({ kind }) => kind));
  return { entries, use, rejected, refusal: refusalOf(situation, options, kinds, lists) };
}

/** The prefix, or what is wrong with the claim. */
function judge({ text, kind, isSurplus }: Claim, { within }: Options): Prefix | string {
  const parsed = parsePrefix(text);
  if ('error' in parsed) return parsed.error.message;
  if (isSurplus) return `is beyond the first ${MOST_ADDRESSES} addresses of its Node`;
  const isBounded = kind !== 'static' && kind !== 'first';
  if (isBounded && !within.some((bound) => covers(bound, parsed.prefix))) return 'is not in --within';
  return parsed.prefix;
}

/** The list of one family, and what leaves it. */
function listOf(family: Family, all: readonly Part[], { last, now }: Situation, options: Options) {
  const setOf = (prefixes: readonly Prefix[]) =>
    rangeSet(family, prefixes.filter((one) => one.family === family).map(rangeOf));
  const parts = all.filter(({ prefix }) => prefix.family === family);
  let list = setOf(parts.map(({ prefix }) => prefix));
  const bounds = union(setOf(options.within), list);
  const use: LastUse[] = [{ at: 'now', prefixes: prefixesOf(list) }];
  const known = last.map(({ at, prefixes }) => ({ at: at === 'now' ? now : Math.min(at, now), prefixes }));
  for (const { at, prefixes } of known.toSorted((a, b) => b.at - a.at)) {
    const unused = difference(intersection(setOf(prefixes), bounds), list);
    if (now - at >= options.grace || unused.ranges.length === 0) continue;
    use.push({ at, prefixes: prefixesOf(unused) });
    list = union(list, unused);
  }
  const unused = use.slice(1).flatMap(({ at, prefixes }) => {
    return prefixes.map((prefix) => ({ prefix, by: `unused since ${timeText(at)}` }));
  });
  const before = setOf(known.flatMap(({ prefixes }) => prefixes));
  const entries = withComments(prefixesOf(list), [...parts, ...unused]);
  return { use, entries, before, removed: difference(before, list) };
}

/** The entries are the largest prefixes of a set, so each part is in exactly one. What is as large as the entry stands for the rest. */
function withComments(entries: readonly Prefix[], parts: readonly Part[]): readonly ListedRange[] {
  const byEntry = Map.groupBy(parts, ({ prefix }) => {
    return entries[partitionPoint(entries, (one) => one.address <= prefix.address) - 1];
  });
  return entries.map((prefix) => {
    const within = byEntry.get(prefix) ?? [];
    const whole = within.filter((part) => part.prefix.text === prefix.text);
    const names = new Set((whole.length > 0 ? whole : within).map(({ by }) => by));
    return { prefix, comment: commentText(printable(truncatedText([...names].toSorted(), 3, String))) };
  });
}

const NO_RANGES =
  'nothing in the cluster names the ranges of pods (no Node has podCIDRs in --within, as with the AWS VPC CNI); name them with --static-ranges';
const FIRST_LIST =
  'this would be the first config file, and without one RFC 1918 is not masqueraded; create another config file first, name its ConfigMap in --config-maps, or add RFC 1918 to the list with --first=rfc1918';

/** The first reason, in the order in which a person would mend them. */
function refusalOf(
  { last, hasOtherFiles, accepted }: Situation,
  { mostRemoved, config: { families, cidrLimitMax: limit } }: Options,
  kinds: ReadonlySet<Claim['kind'] | undefined>,
  lists: readonly ReturnType<typeof listOf>[],
): Refusal | undefined {
  if (!kinds.has('static') && !kinds.has('declared') && !kinds.has('node'))
    return { reason: 'no-ranges', message: NO_RANGES };
  // Agents without rules for IPv4 masquerade nothing to RFC 1918.
  const isFirst = last.length === 0 && !hasOtherFiles && families.includes('IPv4');
  if (isFirst && !kinds.has('first')) return { reason: 'first-list', message: FIRST_LIST };
  const count = lists.flatMap(({ entries }) => entries).length;
  const size = `the list has ${counted(count, 'CIDR')}, more than ${limit}; name a wider range with --static-ranges`;
  if (count > limit) return { reason: 'too-many', message: size };
  const lost = lists.flatMap(({ before, removed }) => {
    return sizeOf(removed.ranges) * 100n > sizeOf(before.ranges) * BigInt(mostRemoved) ? removed : [];
  });
  // Of the rest of the list, which may change while a person reads, nothing is to be accepted.
  const leaving = lost.flatMap(prefixesOf).map(({ text }) => text);
  const hash = createHash('sha256').update(leaving.join()).digest('hex').slice(0, 12);
  if (lost.length === 0 || accepted === hash) return undefined;
  const addresses = lost.map(({ ranges }) => countedAddresses(sizeOf(ranges))).join(' and ');
  const ranges = truncatedText(leaving, 5, String);
  const message = `${addresses} would leave the list at once, more than --most-removed (${mostRemoved} %): ${ranges}; if that is right, annotate the ConfigMap with ip-masq-ranges/accept=${hash}`;
  return { reason: 'removes-too-much', message };
}

/** A sentence about what was rejected. */
export function rejectedText({ claim: { by, text }, why }: Rejected): string {
  return `${by} has the range ${quote(text)}, which ${why}; it is left out`;
}

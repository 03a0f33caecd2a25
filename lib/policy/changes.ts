import type { Family } from '../cidr/address.ts';
import {
  difference,
  everything,
  formatRange,
  intersection,
  meetsSome,
  type Range,
  type RangeSet,
  rangeOf,
  rangeSet,
  sizeOf,
} from '../cidr/ranges.ts';
import type { MergedConfig } from '../config/config.ts';
import { printable } from '../text/escape.ts';
import { counted, countedAddresses, truncated, truncatedText } from '../text/words.ts';
import { compilePolicy, type Entry, nodeAddressText, outcomeText, type Policy } from './policy.ts';
import { type ChangedRange, pairVerdicts, type VerdictRange, type Verdicts, verdictsOf } from './verdicts.ts';

export interface VerdictChanges {
  /** A clause. */
  readonly summary: string;
  /** A line for each range, at most a few, and then a count of the others. */
  readonly lines: readonly string[];
  /** Set if the rules had no effect before: none were there, or nothing led to them. Then there are no lines. */
  readonly hadNoEffect?: true;
}

/** What is true of every change of verdicts: the kernel decides about NAT at the first packet of a connection. */
export const CONNECTIONS_KEEP = 'connections that exist keep their source address';

/** What commands say of it, once, behind all changes. */
export const CONNECTIONS_LINE = `${CONNECTIONS_KEEP.replace(/^c/, 'C')}.`;

/** What changes for packets if the first config is replaced by the second, as lines that commands print. */
export function configChangeLines(before: MergedConfig, after: MergedConfig, families: readonly Family[]) {
  const changes = families.map((family) => ({
    family,
    ...describePolicyChange(compilePolicy(before, family), compilePolicy(after, family)),
  }));
  const differs = changes.some(({ lines }) => lines.length > 0);
  const text = changes.flatMap((change) => verdictLines(change.family, change));
  return { differs, lines: [...text, ...(differs ? [CONNECTIONS_LINE] : [])] };
}

/** The changes as lines that commands print. */
export function verdictLines(what: string, { summary, lines }: VerdictChanges): readonly string[] {
  return [`${what}: ${summary}`, ...lines.map((line) => `  ${printable(line)}`)];
}

/** The ranges whose verdict changes, or cannot be told, ascending and as long as possible. */
export function changesBetween(before: Verdicts, after: Verdicts): readonly ChangedRange[] {
  const changes: ChangedRange[] = [];
  for (const change of pairVerdicts(before, after)) {
    if (isSame(change.before, change.after)) continue;
    const previous = changes.at(-1);
    if (previous !== undefined && continues(previous, change))
      changes[changes.length - 1] = { ...previous, last: change.last };
    else changes.push(change);
  }
  return changes;
}

function isSame(a: Omit<VerdictRange, keyof Range>, b: Omit<VerdictRange, keyof Range>): boolean {
  return a.verdict === b.verdict && a.as === b.as;
}

/** Whether the second change is the first one's, in the addresses behind it. */
function continues(a: ChangedRange, b: ChangedRange): boolean {
  return (
    a.last + 1n === b.first &&
    isSame(a.before, b.before) &&
    isSame(a.after, b.after) &&
    (a.before.verdict !== undefined || a.before.kernelRule === b.before.kernelRule)
  );
}

/**
 * What happens to packets if the first policy is replaced by the second. Only the entries that differ, and those that overlap
 * them, are looked at: all of 100,000 would take 100 MB more, and twice the time.
 */
export function describePolicyChange(before: Policy, after: Policy): VerdictChanges {
  const set = rangeSet(before.family, differingRanges(before, after));
  return describeChanges(verdictsOf(restrictedTo(before, set)), verdictsOf(restrictedTo(after, set)));
}

/** The prefixes about which only one policy says something, or both something else. */
function differingRanges(before: Policy, after: Policy): readonly Range[] {
  const [a, b] = [outcomesByPrefix(before), outcomesByPrefix(after)];
  return [...before.entries, ...after.entries]
    .filter(({ prefix: { text } }) => a.get(text) !== b.get(text))
    .map(({ prefix }) => rangeOf(prefix));
}

/** Of equal prefixes, the first decides. */
function outcomesByPrefix({ entries }: Policy): ReadonlyMap<string, string> {
  const outcomes = new Map<string, string>();
  for (const entry of entries)
    if (!outcomes.has(entry.prefix.text)) outcomes.set(entry.prefix.text, outcomeOf(entry));
  return outcomes;
}

function outcomeOf({ verdict, as }: Entry): string {
  return outcomeText(verdict, as && nodeAddressText(as));
}

/** The policy without the entries that say nothing about addresses of the set. */
function restrictedTo({ family, from, entries }: Policy, { ranges }: RangeSet): Policy {
  return { family, from, entries: entries.filter(({ prefix }) => meetsSome(rangeOf(prefix), ranges)) };
}

/** What happens to packets if the first verdicts are replaced by the second. */
export function describeChanges(before: Verdicts, after: Verdicts): VerdictChanges {
  const { family } = before;
  const sources = sourceChanges(before, after);
  // Packets that were left alone, or are now, whatever their destination, are among the changes of sources.
  const changes = sources.common.ranges.length > 0 ? changesBetween(before, after) : [];
  const unknown = changes.filter((change) => change.before.verdict === undefined);
  const known = sizeOf(changes) - sizeOf(unknown);
  const clauses = [
    ...(known > 0n ? [`the verdict changes for ${countedAddresses(known)}`] : []),
    ...(unknown.length > 0
      ? [`the old verdict of ${countedAddresses(sizeOf(unknown))} is unknown${reasonOf(unknown)}`]
      : []),
    ...sources.clauses,
  ];
  const lines = listed(changes, (change) => changeLine(family, change));
  return { summary: clauses.join(', and ') || 'no verdict changes', lines: [...lines, ...sources.lines] };
}

/** A line for each range, at most a few, and then a count of the others. */
function listed<One extends Range>(ranges: readonly One[], line: (one: One) => string): readonly string[] {
  const size = () => countedAddresses(sizeOf(ranges.slice(MAX_LINES)));
  return truncated(ranges, MAX_LINES, line, (more) => `… and ${counted(more, 'more range')}, ${size()}`);
}

function sourceChanges(before: Verdicts, after: Verdicts) {
  const { family } = before;
  const [old = everything(family), now = everything(family)] = [before.from, after.from];
  const [ended, begun] = [difference(old, now).ranges, difference(now, old).ranges];
  const line = (does: string) => (range: Range) => `from ${formatRange(family, range)}: ${does}`;
  return {
    common: intersection(old, now),
    clauses: [
      ...(ended.length > 0 ? [`packets from ${countedAddresses(sizeOf(ended))} are left alone`] : []),
      ...(begun.length > 0
        ? [`packets from ${countedAddresses(sizeOf(begun))} are no longer left alone`]
        : []),
    ],
    lines: [
      ...listed(ended, line('by destination → not masqueraded')),
      ...listed(begun, line('not masqueraded → by destination')),
    ],
  };
}

const MAX_LINES = 20;

const MAX_RULE = 400;

function changeLine(family: Family, { before, after, ...range }: ChangedRange): string {
  return `${formatRange(family, range)}: ${verdictText(before)} → ${verdictText(after)}`;
}

function verdictText({ verdict, as }: VerdictRange): string {
  return verdict === undefined ? 'unknown' : outcomeText(verdict, as);
}

/** The rules because of which it cannot be told: each once, and not with each range. */
function reasonOf(changes: readonly ChangedRange[]): string {
  const rules = [...new Set(changes.flatMap(({ before }) => before.kernelRule ?? []))];
  if (rules.length === 0) return '';
  return ` because of ${truncatedText(rules, MAX_RULES, (rule) => printable(shorten(rule)))}`;
}

const MAX_RULES = 3;

function shorten(text: string): string {
  return text.length > MAX_RULE ? `${text.slice(0, MAX_RULE)}…` : text;
}

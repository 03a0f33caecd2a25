import type { Dataplane, EntryCount, RuleCount } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy, Verdict } from '../policy/policy.ts';

/** Reading costs a process for each family: often enough for every scrape interval in use. */
const FRESH_MS = 15_000;

/** Counts of one family, as read last. */
interface Reading {
  readonly remade: number;
  /** By the text of the rule. */
  readonly rules: ReadonlyMap<string, RuleCount>;
}

/** What all entries of one source have counted. */
export interface SourceCount {
  /** The source, or the document that a default follows; undefined for what no entry holds. */
  readonly source: string | undefined;
  readonly verdict: Verdict;
  readonly packets: bigint;
  readonly bytes: bigint;
}

/** What the rules have counted, over all their rewrites: the kernel begins anew with each. */
export class PacketCounts {
  readonly #readings = new Map<Family, Reading>();
  readonly #readAt = new Map<Family, number>();
  readonly #now: () => number;

  /** @param now milliseconds of a clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** What each entry has counted since its rules were made, as read last. */
  entries(family: Family): readonly EntryCount[] {
    const rules = this.#readings.get(family)?.rules.values() ?? [];
    return [...summed(rules, countKey).values()];
  }

  /**
   * What has been counted since the last call; nothing where that was a moment ago, or where the kernel cannot be
   * read now: a later call makes up for it.
   */
  async since(dataplane: Dataplane, policy: Policy): Promise<readonly SourceCount[]> {
    const { family } = policy;
    const now = this.#now();
    if (now - (this.#readAt.get(family) ?? Number.NEGATIVE_INFINITY) < FRESH_MS) return [];
    // Never two readings at once: the older one, if it ended last, would look like a rewrite.
    this.#readAt.set(family, Number.POSITIVE_INFINITY);
    try {
      const before = this.#readings.get(family);
      const { remade, rules } = await dataplane.count(policy);
      const after = { remade, rules: summed(rules, ({ rule }) => rule) };
      this.#readings.set(family, after);
      return countsBySource(growth(before, after));
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      return [];
    } finally {
      this.#readAt.set(family, now);
    }
  }
}

/** The same for an entry whoever asks for it, as its rules are the same. */
export function countKey({ entry, verdict }: Pick<EntryCount, 'entry' | 'verdict'>): string {
  return `${verdict} ${entry?.prefix.text ?? 'everything else'}`;
}

/** Those of equal keys together. */
function summed<Count extends EntryCount>(
  counts: Iterable<Count>,
  keyOf: (count: Count) => string,
): ReadonlyMap<string, Count> {
  const sums = new Map<string, Count>();
  for (const count of counts) {
    const key = keyOf(count);
    const sum = sums.get(key);
    const { packets, bytes } = count;
    sums.set(
      key,
      sum === undefined ? count : { ...sum, packets: sum.packets + packets, bytes: sum.bytes + bytes },
    );
  }
  return sums;
}

/**
 * What each rule has counted since it was read before. Sums of several rules could not tell: one that goes looks like a
 * rewrite of all.
 */
function growth(before: Reading | undefined, after: Reading): readonly EntryCount[] {
  const known = before?.remade === after.remade ? before.rules : undefined;
  return Array.from(after.rules, ([rule, count]) => grown(known?.get(rule), count));
}

function grown(before: RuleCount | undefined, after: RuleCount): EntryCount {
  // Less than before: somebody else has made the rule anew, and it has counted all of it since.
  if (before === undefined || after.packets < before.packets || after.bytes < before.bytes) return after;
  return { ...after, packets: after.packets - before.packets, bytes: after.bytes - before.bytes };
}

/** The counts of each source and verdict together, in the order in which they come first. */
function countsBySource(counts: readonly EntryCount[]): readonly SourceCount[] {
  const sums = new Map<string, { -readonly [Key in keyof SourceCount]: SourceCount[Key] }>();
  for (const { entry, verdict, packets, bytes } of counts) {
    const source = entry?.origin.kind === 'file' ? entry.origin.source : entry?.origin.reason;
    const key = `${verdict} ${entry?.origin.kind} ${source}`;
    const sum = sums.get(key) ?? { source, verdict, packets: 0n, bytes: 0n };
    sum.packets += packets;
    sum.bytes += bytes;
    sums.set(key, sum);
  }
  return [...sums.values()];
}

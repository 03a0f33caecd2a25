import { countsBySource, type SourceCount } from '../dataplane/counts.ts';
import type { Dataplane, EntryCount } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Policy } from '../policy/policy.ts';

type Family = Policy['family'];

/** Reading costs a process for each family: often enough for every scrape interval in use. */
const FRESH_MS = 15_000;

/** What the rules have counted, over all their rewrites: the kernel begins anew with each. */
export class PacketCounts {
  readonly #entries = new Map<Family, ReadonlyMap<string, EntryCount>>();
  readonly #readAt = new Map<Family, number>();
  readonly #now: () => number;

  /** @param now milliseconds of a clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** What each entry has counted since its rules were made, as read last. */
  entries(family: Family): readonly EntryCount[] {
    return [...(this.#entries.get(family)?.values() ?? [])];
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
      const before = this.#entries.get(family);
      const after = countsByEntry(await dataplane.count(policy));
      this.#entries.set(family, after);
      return countsBySource(Array.from(after, ([key, count]) => grown(before?.get(key), count)));
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

/** The rules of each entry together, by its key. */
function countsByEntry(counts: readonly EntryCount[]): ReadonlyMap<string, EntryCount> {
  const sums = new Map<string, EntryCount>();
  for (const count of counts) {
    const key = countKey(count);
    const { packets, bytes } = sums.get(key) ?? { packets: 0n, bytes: 0n };
    sums.set(key, { ...count, packets: packets + count.packets, bytes: bytes + count.bytes });
  }
  return sums;
}

/**
 * What one entry has counted since it was read before. Sums of several entries could not tell: one entry that goes
 * looks like a rewrite of all.
 */
function grown(before: EntryCount | undefined, after: EntryCount): EntryCount {
  // Less than before: the rules were made anew, and have counted all of it since.
  if (before === undefined || after.packets < before.packets || after.bytes < before.bytes) return after;
  return { ...after, packets: after.packets - before.packets, bytes: after.bytes - before.bytes };
}

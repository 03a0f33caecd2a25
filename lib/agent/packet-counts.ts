import { countsBySource, type SourceCount } from '../dataplane/counts.ts';
import type { Dataplane, EntryCount } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Policy } from '../policy/policy.ts';

type Family = Policy['family'];

/** Reading costs a process for each family: often enough for every scrape interval in use. */
const FRESH_MS = 15_000;

/** What the rules have counted, over all their rewrites: the kernel begins anew with each. */
export class PacketCounts {
  readonly #totals = new Map<Family, ReadonlyMap<string, SourceCount>>();
  readonly #entries = new Map<Family, readonly EntryCount[]>();
  readonly #readAt = new Map<Family, number>();

  /** What each entry has counted since the rules were made, as read last. */
  entries(family: Family): readonly EntryCount[] {
    return this.#entries.get(family) ?? [];
  }

  /**
   * What has been counted since the last call; nothing where that was a moment ago, or where the kernel cannot be
   * read now: the next call makes up for it.
   */
  async since(dataplane: Dataplane, policy: Policy): Promise<readonly SourceCount[]> {
    const { family } = policy;
    const now = performance.now();
    if (now - (this.#readAt.get(family) ?? -FRESH_MS) < FRESH_MS) return [];
    this.#readAt.set(family, now);
    const counts = await dataplane.count(policy).catch((error: unknown) => {
      if (error instanceof DataplaneError) return undefined;
      throw error;
    });
    if (counts === undefined) return [];
    this.#entries.set(family, counts);
    return this.#grown(family, countsBySource(counts));
  }

  #grown(family: Family, counts: readonly SourceCount[]): readonly SourceCount[] {
    const before = this.#totals.get(family);
    const after = new Map(counts.map((count) => [`${count.verdict} ${count.source ?? ''}`, count]));
    this.#totals.set(family, after);
    return Array.from(after, ([key, count]) => {
      const last = before?.get(key);
      // Less than before: the rules were made anew, and have counted all of it since.
      const [packets, bytes] =
        last === undefined || count.packets < last.packets ? [0n, 0n] : [last.packets, last.bytes];
      return { ...count, packets: count.packets - packets, bytes: count.bytes - bytes };
    });
  }
}

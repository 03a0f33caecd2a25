import type { Verdict } from '../policy/policy.ts';
import type { EntryCount } from './dataplane.ts';

/** What all entries of one source have counted. */
export interface SourceCount {
  /** The source, or the document that a default follows; undefined for what no entry holds. */
  readonly source: string | undefined;
  readonly verdict: Verdict;
  readonly packets: bigint;
  readonly bytes: bigint;
}

/** The counts of each source and verdict together, in the order in which they come first. */
export function countsBySource(counts: readonly EntryCount[]): readonly SourceCount[] {
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

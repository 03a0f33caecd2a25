import { highest, type Range, type RangeSet, rangeOf, rangeSet } from '../cidr/ranges.ts';
import type { Entry, Policy } from './policy.ts';

/** Consecutive addresses for which the same entry decides, or none. */
export interface Segment extends Range {
  readonly entry: Entry | undefined;
}

export type DecidedSegment = Segment & { readonly entry: Entry };

/** The policy without nesting: ascending segments without gaps, each with the entry that decides there. */
export function flatten({ family, entries }: Policy): readonly Segment[] {
  const segments: Segment[] = [];
  /** The entries that hold the cursor, each inside the previous one. */
  const open: (Range & { readonly entry: Entry })[] = [];
  let cursor = 0n;
  const emit = (last: bigint): void => {
    if (last >= cursor) segments.push({ first: cursor, last, entry: open.at(-1)?.entry });
    cursor = last + 1n;
  };
  const close = (before: bigint): void => {
    for (let top = open.at(-1); top && top.last < before; top = open.at(-1)) {
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
  close(highest(family) + 1n);
  emit(highest(family));
  return segments;
}

/** The segments that the policy does not masquerade. */
export function segmentsLeftAlone(policy: Policy): readonly DecidedSegment[] {
  return flatten(policy).filter(
    (segment): segment is DecidedSegment => segment.entry?.verdict === 'not_masqueraded',
  );
}

/** All addresses that the policy does not masquerade. */
export function unmasqueraded(policy: Policy): RangeSet {
  return rangeSet(policy.family, segmentsLeftAlone(policy));
}

/** Orders prefixes ascending, and a wider prefix before those inside it. */
function byNesting({ prefix: a }: Entry, { prefix: b }: Entry): number {
  if (a.address !== b.address) return a.address < b.address ? -1 : 1;
  return a.length - b.length;
}

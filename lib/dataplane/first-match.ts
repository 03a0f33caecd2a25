import { ADDRESS_BITS, type Family } from '../cidr/address.ts';
import type { Range } from '../cidr/ranges.ts';
import type { VerdictRange, Verdicts } from '../policy/verdicts.ts';
import { partitionPoint } from '../text/partition-point.ts';

/** A rule, and what becomes of packets to some destinations; the verdict is undefined if that is unknown. */
export interface Step extends Pick<VerdictRange, 'verdict' | 'as'> {
  /** Evidence for people: the rule as its tool writes it, with its chain. */
  readonly text: string;
  readonly ranges: readonly Range[];
  /** Whether the next rule decides about some of these packets. */
  readonly isPartial: boolean;
}

/**
 * What a chain does with packets to every address. The first rule that matches a packet decides; behind the last one,
 * the packet is left alone. If a rule matches only some packets to an address, and the others get another verdict, it
 * cannot be told.
 */
export function firstMatches(family: Family, steps: readonly Step[]): Verdicts {
  const end = 1n << BigInt(ADDRESS_BITS[family]);
  // No Set or Map: V8 hashes the lowest 64 bits of a bigint alone.
  const starts = [
    0n,
    ...steps.flatMap((step) => step.ranges.flatMap(({ first, last }) => [first, last + 1n])),
  ]
    .filter((edge) => edge < end)
    .sort((a, b) => Number(a > b) - Number(a < b))
    .filter((edge, index, edges) => edge !== edges[index - 1]);
  const found = starts.map((first, index): VerdictRange => {
    return { first, last: (starts[index + 1] ?? end) - 1n, verdict: 'not_masqueraded' };
  });
  const indexOf = (address: bigint) => partitionPoint(starts, (other) => other < address);
  // From the last rule to the first, which overwrites what those behind it say.
  for (const step of steps.toReversed())
    for (const { first, last } of step.ranges)
      for (let index = indexOf(first), end = indexOf(last + 1n); index < end; index += 1)
        found[index] = before(step, found[index] as VerdictRange);
  return { family, ranges: found };
}

/** What becomes of packets that meet a step before what is known already. */
function before({ text, verdict, as, isPartial }: Step, behind: VerdictRange): VerdictRange {
  const isSame = behind.verdict === undefined || (behind.verdict === verdict && behind.as === as);
  if (isPartial && verdict !== undefined && isSame) return behind;
  const { first, last } = behind;
  return { first, last, ...(isPartial ? { verdict: undefined } : { verdict, as }), kernelRule: text };
}

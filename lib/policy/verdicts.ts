import { ADDRESS_BITS, type Family } from '../cidr/address.ts';
import type { Range, RangeSet } from '../cidr/ranges.ts';
import { allowedSources, cutBySegments, flatten } from './flatten.ts';
import { nodeAddressText, type Policy, type Verdict } from './policy.ts';

/** What happens to packets to consecutive addresses. */
export interface VerdictRange extends Range {
  /** Undefined if it cannot be told, because it depends on more than the destination. */
  readonly verdict: Verdict | undefined;
  /** The address that packets leave with, in words; undefined if the kernel chooses it, or if they are not masqueraded. */
  readonly as?: string | undefined;
  /** The rule in the kernel that decides, or because of which it cannot be told; undefined if there is none. */
  readonly kernelRule?: string | undefined;
}

/** The verdicts for all addresses of a family: ascending, without gaps. */
export interface Verdicts {
  readonly family: Family;
  /** Where packets must come from to have these verdicts; all others are left alone. Undefined if they may come from anywhere. */
  readonly from?: RangeSet | undefined;
  readonly ranges: readonly VerdictRange[];
}

/** Consecutive addresses, and their verdicts before and after a change. */
export interface ChangedRange extends Range {
  readonly before: VerdictRange;
  readonly after: VerdictRange;
}

export function verdictsOf(policy: Policy): Verdicts {
  const { family } = policy;
  const all = { first: 0n, last: (1n << BigInt(ADDRESS_BITS[family])) - 1n };
  const ranges = Array.from(cutBySegments(flatten(policy), all), ({ first, last, entry }): VerdictRange => {
    if (entry === undefined) return { first, last, verdict: 'masqueraded' };
    return { first, last, verdict: entry.verdict, as: entry.as && nodeAddressText(entry.as) };
  });
  return { family, from: allowedSources(policy), ranges };
}

/** The same verdict for all addresses of a family. */
export function uniformVerdicts(family: Family, verdict: Omit<VerdictRange, keyof Range>): Verdicts {
  return { family, ranges: [{ ...verdict, first: 0n, last: (1n << BigInt(ADDRESS_BITS[family])) - 1n }] };
}

/** The longest ranges in which both verdicts stay the same, ascending. Both must have the same family. */
export function* pairVerdicts(a: Verdicts, b: Verdicts): Generator<ChangedRange, void> {
  let [i, j, first] = [0, 0, 0n];
  for (
    let before = a.ranges[i], after = b.ranges[j];
    before && after;
    before = a.ranges[i], after = b.ranges[j]
  ) {
    const last = before.last < after.last ? before.last : after.last;
    yield { first, last, before, after };
    if (before.last === last) i += 1;
    if (after.last === last) j += 1;
    first = last + 1n;
  }
}

import { partitionPoint } from '../text/partition-point.ts';
import { type Plan, type PlannedRule, unplanned } from './dataplane.ts';

export interface DiffLine {
  readonly change: 'kept' | 'added' | 'removed';
  readonly rule: PlannedRule;
}

/**
 * The difference between the rules in the kernel and those of a plan, in the order of the plan. If rules change their
 * order, as few as possible are shown as removed and added.
 */
export function diffOf({ current, wanted }: Pick<Plan, 'current' | 'wanted'>): readonly DiffLine[] {
  const common = longestCommon(current, wanted);
  const lines: DiffLine[] = [];
  let [from, to] = [0, 0];
  // Between two rules that stay, the removed rules come before the added ones.
  for (const end of [...common, { from: current.length, to: wanted.length }]) {
    for (const text of current.slice(from, end.from))
      lines.push({ change: 'removed', rule: unplanned(text) });
    for (const rule of wanted.slice(to, end.to)) lines.push({ change: 'added', rule });
    const rule = wanted[end.to];
    if (rule !== undefined) lines.push({ change: 'kept', rule });
    [from, to] = [end.from + 1, end.to + 1];
  }
  return lines;
}

function longestCommon(current: readonly string[], wanted: readonly PlannedRule[]): readonly Pair[] {
  const slots = new Map<string, number[]>();
  for (const [index, { text }] of wanted.entries()) slots.set(text, [...(slots.get(text) ?? []), index]);
  const pairs = current.flatMap((text, from) => {
    const to = slots.get(text)?.shift();
    return to === undefined ? [] : [{ from, to }];
  });
  return longestAscending(pairs);
}

/** A rule's index among the current and among the wanted rules. */
interface Pair {
  readonly from: number;
  readonly to: number;
}

/** The longest part of the list in which `to` ascends (patience sorting). */
function longestAscending(pairs: readonly Pair[]): readonly Pair[] {
  interface Chain extends Pair {
    readonly before: Chain | undefined;
  }
  const ends: Chain[] = [];
  for (const pair of pairs) {
    const slot = partitionPoint(ends, ({ to }) => to < pair.to);
    ends[slot] = { ...pair, before: ends[slot - 1] };
  }
  const longest: Pair[] = [];
  for (let end = ends.at(-1); end !== undefined; end = end.before) longest.push(end);
  return longest.reverse();
}

import { type Plan, type PlannedRule, unplanned } from './dataplane.ts';

export interface DiffLine {
  readonly change: 'kept' | 'added' | 'removed';
  readonly rule: PlannedRule;
}

/** The difference between the rules in the kernel and those of a plan, in the order of the plan. */
export function diffOf({ current, wanted }: Pick<Plan, 'current' | 'wanted'>): readonly DiffLine[] {
  const positions = new Map(current.map((text, index) => [text, index]));
  const lines: DiffLine[] = [];
  let from = 0;
  let added: DiffLine[] = [];
  // Between two rules that stay, the removed rules come before the added ones.
  const endStretch = (end: number) => {
    const removed = current
      .slice(from, end)
      .map((text) => ({ change: 'removed', rule: unplanned(text) }) as const);
    lines.push(...removed, ...added);
    [from, added] = [end + 1, []];
  };
  for (const rule of wanted) {
    const position = positions.get(rule.text) ?? -1;
    if (position < from) added.push({ change: 'added', rule });
    else {
      endStretch(position);
      lines.push({ change: 'kept', rule });
    }
  }
  endStretch(current.length);
  return lines;
}

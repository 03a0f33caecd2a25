import type { Family } from '../cidr/address.ts';
import { everything, intersection, nothing, type RangeSet } from '../cidr/ranges.ts';

/** A condition of a rule about a packet, other than its destination. */
export type Condition =
  | MarkCondition
  /** The same for all rules with the same text, until the packet changes: source, interfaces, ports. */
  | { readonly kind: 'steady'; readonly text: string }
  /** May differ between two rules with the same text: probabilities, limits, sets that change. */
  | { readonly kind: 'other'; readonly text: string };

/** A condition about the mark. It shows who masquerades what, because programs mark only their own packets. */
export interface MarkCondition {
  readonly kind: 'mark';
  readonly value: number;
  readonly mask: number;
  /** Whether the mark must match, or must not match. */
  readonly is: boolean;
  /** Whether the mark was changed after this condition, so that the condition says nothing about later rules. */
  readonly past: boolean;
}

/** The meaning of one match of a rule. */
export type Test =
  | { readonly kind: 'destinations'; readonly set: RangeSet }
  | { readonly kind: 'condition'; readonly condition: Condition }
  | { readonly kind: 'always' }
  | { readonly kind: 'never' };

/** Every packet passes it. */
export const ALWAYS: Test = { kind: 'always' };
/** No packet passes it. */
export const NEVER: Test = { kind: 'never' };

/** A condition that gives the same result each time. */
export function steadyCondition(text: string): Test {
  return { kind: 'condition', condition: { kind: 'steady', text } };
}

/** A condition that may give another result for the next rule. */
export function otherCondition(text: string): Test {
  return { kind: 'condition', condition: { kind: 'other', text } };
}

/** A condition about the mark. For a single bit, "the bit is 0" becomes "the bit is not 1", to have one form. */
export function markTest(value: number, mask: number, is: boolean): Test {
  const single = mask !== 0 && (mask & (mask - 1)) === 0;
  const condition: MarkCondition =
    single && value === 0
      ? { kind: 'mark', value: mask, mask, is: !is, past: false }
      : { kind: 'mark', value, mask, is, past: false };
  return { kind: 'condition', condition };
}

/** The conjunction of all tests. */
export function combine(
  family: Family,
  tests: readonly Test[],
): { readonly destinations: RangeSet; readonly conditions: readonly Condition[] } {
  let destinations = everything(family);
  const conditions: Condition[] = [];
  for (const test of tests) {
    switch (test.kind) {
      case 'destinations':
        destinations = intersection(destinations, test.set);
        break;
      case 'condition':
        conditions.push(test.condition);
        break;
      case 'never':
        destinations = nothing(family);
        break;
      case 'always':
        break;
    }
  }
  return { destinations, conditions };
}

/** The condition as text for people. */
export function conditionText(condition: Condition): string {
  if (condition.kind !== 'mark') return condition.text;
  const mask = condition.mask === 0xffffffff ? '' : `/${hex(condition.mask)}`;
  return `mark ${condition.is ? '' : 'not '}${hex(condition.value)}${mask}`;
}

/** Whether both conditions are equal. */
export function sameCondition(a: Condition, b: Condition): boolean {
  if (a.kind === 'mark' && b.kind === 'mark') return sameMark(a, b) && a.is === b.is && a.past === b.past;
  return a.kind !== 'mark' && a.kind === b.kind && a.text === b.text;
}

/** Whether no packet can meet both conditions. */
export function contradict(a: Condition, b: Condition): boolean {
  return a.kind === 'mark' && b.kind === 'mark' && sameMark(a, b) && a.is !== b.is && !a.past && !b.past;
}

function sameMark(a: MarkCondition, b: MarkCondition): boolean {
  return a.value === b.value && a.mask === b.mask;
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

import type { Family } from '../cidr/address.ts';
import { everything, intersection, nothing, type RangeSet } from '../cidr/ranges.ts';

/** What a rule asks of a packet besides its destination. */
export type Condition =
  | MarkCondition
  /** The same text gets the same answer from a packet, for as long as nothing changes it: source, interfaces, ports. */
  | { readonly kind: 'steady'; readonly text: string }
  /** May be so for one rule, and not for the next: chances, limits, sets that others change meanwhile. */
  | { readonly kind: 'other'; readonly text: string };

/** Marks are kept apart because they say who masquerades what: the owner of a mark sets it on packets of its own. */
export interface MarkCondition {
  readonly kind: 'mark';
  readonly value: number;
  readonly mask: number;
  /** Whether the mark must be so, or must not. */
  readonly is: boolean;
  /** Whether the mark was changed after it was asked for, so that it says nothing about the next rule. */
  readonly past: boolean;
}

/** What one match of a rule says: something of destinations, something else, or nothing that could fail. */
export type Test =
  | { readonly kind: 'destinations'; readonly set: RangeSet }
  | { readonly kind: 'condition'; readonly condition: Condition }
  | { readonly kind: 'always' }
  | { readonly kind: 'never' };

/** Says nothing that could fail. */
export const ALWAYS: Test = { kind: 'always' };
/** No packet passes it. */
export const NEVER: Test = { kind: 'never' };

/** A condition to which a packet gives the same answer each time. */
export function steadyCondition(text: string): Test {
  return { kind: 'condition', condition: { kind: 'steady', text } };
}

/** A condition that may be so for one rule, and not for the next. */
export function otherCondition(text: string): Test {
  return { kind: 'condition', condition: { kind: 'other', text } };
}

/** Of a single bit "is not set" and "is no mark of that bit" are one condition. */
export function markTest(value: number, mask: number, is: boolean): Test {
  const single = mask !== 0 && (mask & (mask - 1)) === 0;
  const condition: MarkCondition =
    single && value === 0
      ? { kind: 'mark', value: mask, mask, is: !is, past: false }
      : { kind: 'mark', value, mask, is, past: false };
  return { kind: 'condition', condition };
}

/** All tests together. */
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

/** The condition for people. */
export function conditionText(condition: Condition): string {
  if (condition.kind !== 'mark') return condition.text;
  const mask = condition.mask === 0xffffffff ? '' : `/${hex(condition.mask)}`;
  return `mark ${condition.is ? '' : 'not '}${hex(condition.value)}${mask}`;
}

/** Whether both ask for the same. */
export function sameCondition(a: Condition, b: Condition): boolean {
  if (a.kind === 'mark' && b.kind === 'mark') return sameMark(a, b) && a.is === b.is && a.past === b.past;
  return a.kind !== 'mark' && a.kind === b.kind && a.text === b.text;
}

/** Whether no packet fulfils both. */
export function contradict(a: Condition, b: Condition): boolean {
  return a.kind === 'mark' && b.kind === 'mark' && sameMark(a, b) && a.is !== b.is && !a.past && !b.past;
}

function sameMark(a: MarkCondition, b: MarkCondition): boolean {
  return a.value === b.value && a.mask === b.mask;
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

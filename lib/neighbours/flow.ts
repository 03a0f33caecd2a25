import { complement, difference, intersection, type RangeSet, rangeSet, union } from '../cidr/ranges.ts';
import type { Rule } from './base-chain.ts';
import { type Condition, contradict, type MarkCondition, sameCondition } from './condition.ts';

/** A set of packets on their way through a chain: those to the destinations that meet all conditions. */
export interface Flow {
  readonly destinations: RangeSet;
  readonly conditions: readonly Condition[];
}

/** More flows are joined to one with their common conditions, which holds more packets, never fewer. */
const MOST_FLOWS = 64;

/** The part of the flow that may match the rule. */
export function meet(flow: Flow, rule: Rule): readonly Flow[] {
  const destinations = intersection(flow.destinations, rule.destinations);
  const conditions = withConditions(flow.conditions, rule.conditions);
  return destinations.ranges.length === 0 || conditions === undefined ? [] : [{ destinations, conditions }];
}

/**
 * The part of the flow that may not match the rule. If a mark is the only condition, the rest does not have it: after
 * "unmarked packets return", the marked ones are left. Any other condition says nothing about the rest.
 */
export function miss(flow: Flow, rule: Rule): readonly Flow[] {
  const outside = { ...flow, destinations: difference(flow.destinations, rule.destinations) };
  const [condition, ...more] = rule.conditions;
  if (condition === undefined) return withoutEmpty([outside]);
  if (condition.kind !== 'mark' || more.length > 0) return [flow];
  const conditions = withConditions(flow.conditions, [inverse(condition)]);
  if (conditions === undefined) return withoutEmpty([outside]);
  const destinations = intersection(flow.destinations, rule.destinations);
  return withoutEmpty([outside, { destinations, conditions }]);
}

/** The flow without the packets that certainly match one of the rules. */
export function leave(flow: Flow, rules: readonly Rule[]): readonly Flow[] {
  const sure = rules.filter(({ conditions }) => isSubset(conditions, flow.conditions));
  const ranges = sure.flatMap(({ destinations }) => destinations.ranges);
  const taken = rangeSet(flow.destinations.family, ranges);
  return withoutEmpty([{ ...flow, destinations: difference(flow.destinations, taken) }]);
}

/** The flow after a rule that changes the mark: conditions about the old mark say nothing about the new one. */
export function afterMark({ destinations, conditions }: Flow): Flow {
  return {
    destinations,
    conditions: conditions.map((one) => (one.kind === 'mark' ? { ...one, past: true } : one)),
  };
}

/** The same packets in fewer flows. */
export function joinFlows(flows: readonly Flow[]): readonly Flow[] {
  let joined: readonly Flow[] = [];
  for (const flow of flows) {
    joined = addFlow(joined, flow);
    const [first, ...rest] = joined;
    if (first !== undefined && joined.length > MOST_FLOWS) joined = [rest.reduce(common, first)];
  }
  return joined;
}

function addFlow(flows: readonly Flow[], flow: Flow): readonly Flow[] {
  if (flows.some((other) => holds(other, flow))) return flows;
  const others = flows.filter((other) => !holds(flow, other));
  const partner = others.find((other) => joint(other, flow) !== undefined);
  const both = partner && joint(partner, flow);
  if (partner === undefined || both === undefined) return [...others, flow];
  return addFlow(
    others.filter((other) => other !== partner),
    both,
  );
}

/** Whether every packet of the inner flow is in the outer one. */
function holds(outer: Flow, inner: Flow): boolean {
  return isSubset(outer.conditions, inner.conditions) && covers(outer.destinations, inner.destinations);
}

/** One flow with exactly the packets of both; undefined if there is none. */
function joint(a: Flow, b: Flow): Flow | undefined {
  const onlyA = without(a.conditions, b.conditions);
  const onlyB = without(b.conditions, a.conditions);
  if (onlyA.length === 0 && onlyB.length === 0) {
    return { destinations: union(a.destinations, b.destinations), conditions: a.conditions };
  }
  const [x, y] = [onlyA[0], onlyB[0]];
  const opposite =
    onlyA.length === 1 && onlyB.length === 1 && x !== undefined && y !== undefined && contradict(x, y);
  return opposite && covers(a.destinations, b.destinations) && covers(b.destinations, a.destinations)
    ? { destinations: a.destinations, conditions: without(a.conditions, onlyA) }
    : undefined;
}

function common(a: Flow, b: Flow): Flow {
  return {
    destinations: union(a.destinations, b.destinations),
    conditions: a.conditions.filter((one) => isSubset([one], b.conditions)),
  };
}

/** All conditions together; undefined if they contradict each other. */
function withConditions(
  some: readonly Condition[],
  more: readonly Condition[],
): readonly Condition[] | undefined {
  if (more.some((one) => [...some, ...more].some((other) => contradict(one, other)))) return undefined;
  return [...some, ...without(more, some)];
}

function without(some: readonly Condition[], others: readonly Condition[]): readonly Condition[] {
  return some.filter((one) => !others.some((other) => sameCondition(one, other)));
}

function isSubset(some: readonly Condition[], others: readonly Condition[]): boolean {
  return without(some, others).length === 0;
}

function inverse(condition: MarkCondition): MarkCondition {
  return { ...condition, is: !condition.is };
}

function covers(outer: RangeSet, inner: RangeSet): boolean {
  return intersection(inner, complement(outer)).ranges.length === 0;
}

function withoutEmpty(flows: readonly Flow[]): readonly Flow[] {
  return flows.filter(({ destinations }) => destinations.ranges.length > 0);
}

import { everything, intersection, type RangeSet, rangeSet } from '../cidr/ranges.ts';
import type { BaseChain, Rule } from './base-chain.ts';
import { sameCondition } from './condition.ts';
import { afterMark, type Flow, joinFlows, leave, meet, miss } from './flow.ts';

/** Packets that may reach a rule that decides, and their path. */
export interface Reached extends Flow {
  /** The rule that they reach. */
  readonly rule: Rule;
  /** The rules on the way, from the base chain on; the last one is the rule itself. */
  readonly path: readonly Rule[];
}

/** The most rules with conditions to remember. If the first ones are dropped, more packets are assumed, never fewer. */
const MOST_TAKERS = 256;

/**
 * The packets that may reach each rule that masquerades, ends the base chain, or leads to the agent's chain, in the
 * order in which they meet the rules. A packet that meets the conditions reaches the rule, unless an earlier rule with
 * other conditions decides about it. The first of several RETURNs in a row stands for all of them.
 */
export function reach(base: BaseChain): readonly Reached[] {
  const walk: Walk = {
    chains: new Map([...base.chains].map(([name, rules]) => [name, joinReturns(rules)])),
    found: [],
    takers: [],
    changes: 0,
  };
  walkChain(walk, base.name, [{ destinations: everything(base.family), conditions: [] }], []);
  return walk.found;
}

/** The base chain without the rules that cannot match packets to these destinations. */
export function narrow(base: BaseChain, to: RangeSet): BaseChain {
  const mayMatch = ({ destinations }: Rule) => intersection(destinations, to).ranges.length > 0;
  const narrowed = [...base.chains].map(([name, rules]) => [name, rules.filter(mayMatch)] as const);
  return { ...base, chains: new Map(narrowed) };
}

interface Walk {
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
  readonly found: Reached[];
  /** Rules with conditions that have decided: packets that match them are no longer in the flows. */
  takers: readonly Rule[];
  /** The number of rules that may have changed packets so far. */
  changes: number;
}

/** What happens to packets at a rule. */
interface Passage {
  /** The packets that go to the next rule. */
  readonly next: readonly Flow[];
  /** The packets that go back to the calling chain. */
  readonly back: readonly Flow[];
}

function walkChain(
  walk: Walk,
  chain: string,
  entering: readonly Flow[],
  path: readonly Rule[],
): readonly Flow[] {
  const { takers, changes } = walk;
  let flows = entering;
  const returned: Flow[] = [];
  for (const rule of walk.chains.get(chain) ?? []) {
    // The kernel accepts no loop of chains, but chains that change during the reading may look like one.
    if (path.includes(rule)) continue;
    const met = flows.flatMap((flow) => meet(flow, rule));
    if (met.length === 0) continue;
    const { next, back } = pass(walk, met, flows, [...path, rule], rule);
    flows = joinFlows(next);
    returned.push(...back);
    if (flows.length === 0) break;
  }
  // The packets that the chain returns go on as before, so its takers do not apply to them.
  walk.takers = walk.changes === changes ? takers : [];
  return joinFlows([...flows, ...returned]);
}

/** Passes a rule: `met` are the packets of the flows that match it. */
function pass(
  walk: Walk,
  met: readonly Flow[],
  flows: readonly Flow[],
  path: readonly Rule[],
  rule: Rule,
): Passage {
  const { outcome } = rule;
  const missed = () => flows.flatMap((flow) => miss(flow, rule));
  const isBase = path.length === 1;
  switch (outcome.kind) {
    case 'masquerades':
    case 'ends':
      report(walk, met, path, rule);
      take(walk, rule);
      return { next: missed(), back: [] };
    case 'own':
      report(walk, met, path, rule);
      return { next: flows, back: [] };
    case 'returns':
      if (isBase) report(walk, met, path, rule);
      take(walk, rule);
      return { next: missed(), back: met };
    case 'jump':
      return { next: [...missed(), ...walkChain(walk, outcome.chain, met, path)], back: [] };
    case 'goto': {
      const back = walkChain(walk, outcome.chain, met, path);
      if (isBase) report(walk, back, path, rule);
      take(walk, rule);
      return { next: missed(), back };
    }
    case 'changes':
      walk.changes += 1;
      walk.takers = [];
      return { next: [...missed(), ...met.map(afterMark)], back: [] };
    case 'goes on':
      return { next: flows, back: [] };
  }
}

function report(walk: Walk, flows: readonly Flow[], path: readonly Rule[], rule: Rule): void {
  const left = flows.flatMap((flow) => leave(flow, walk.takers));
  walk.found.push(...left.map((flow) => ({ ...flow, rule, path })));
}

/** Remembers a rule with conditions. Flows themselves show rules without conditions; other conditions show nothing. */
function take(walk: Walk, rule: Rule): void {
  const { conditions } = rule;
  if (conditions.length === 0 || conditions.some(({ kind }) => kind === 'other')) return;
  walk.takers = [...walk.takers, rule].slice(-MOST_TAKERS);
}

/**
 * Joins consecutive RETURNs with the same conditions into one rule. Other agents list thousands of CIDRs this way; one
 * by one, they would take quadratic time.
 */
function joinReturns(rules: readonly Rule[]): readonly Rule[] {
  const runs: Rule[][] = [];
  for (const rule of rules) {
    const run = runs.at(-1);
    if (run?.[0] !== undefined && isSameReturn(rule, run[0])) run.push(rule);
    else runs.push([rule]);
  }
  return runs.flatMap((run) => {
    const [first, ...more] = run;
    if (first === undefined || more.length === 0) return run;
    const ranges = run.flatMap(({ destinations }) => destinations.ranges);
    return [{ ...first, destinations: rangeSet(first.destinations.family, ranges) }];
  });
}

function isSameReturn({ outcome, conditions }: Rule, other: Rule): boolean {
  return (
    outcome.kind === 'returns' &&
    other.outcome.kind === 'returns' &&
    conditions.length === other.conditions.length &&
    conditions.every((one, index) => {
      const same = other.conditions[index];
      return same !== undefined && sameCondition(one, same);
    })
  );
}

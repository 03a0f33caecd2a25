import { everything, intersection, type RangeSet, rangeSet } from '../cidr/ranges.ts';
import type { BaseChain, Rule } from './base-chain.ts';
import { sameCondition } from './condition.ts';
import { afterMark, type Flow, joinFlows, leave, meet, miss } from './flow.ts';

/** Packets that may get to a rule that decides, and how. */
export interface Reached extends Flow {
  /** The rule that they get to. */
  readonly rule: Rule;
  /** The rules that lead there, from the base chain on; the last one is the rule itself. */
  readonly path: readonly Rule[];
}

/** Of more rules with conditions the first ones are forgotten: more packets get on then, never fewer. */
const MOST_TAKERS = 256;

/**
 * The packets that may get to each rule that masquerades, ends the base chain in whatever way, or leads to the
 * agent's own chain, in the order in which they meet them. A packet that fulfils the conditions gets there, unless an
 * earlier rule with other conditions of its own has decided about it. The first of RETURNs in a row stands for all,
 * unless the chain is narrowed to what only one of them is about.
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

/** The base chain without the rules that no packet to these destinations can match. */
export function narrow(base: BaseChain, to: RangeSet): BaseChain {
  const mayMatch = ({ destinations }: Rule) => intersection(destinations, to).ranges.length > 0;
  const narrowed = [...base.chains].map(([name, rules]) => [name, rules.filter(mayMatch)] as const);
  return { ...base, chains: new Map(narrowed) };
}

interface Walk {
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
  readonly found: Reached[];
  /** Rules with conditions: what matches them has been taken out of the flows. */
  takers: readonly Rule[];
  /** How many rules may have changed packets so far. */
  changes: number;
}

/** What happens to the packets that a chain is given. */
interface Passage {
  /** Those that come to the next rule. */
  readonly next: readonly Flow[];
  /** Those that go back to the chain they came from. */
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
    // The kernel accepts no loop of chains, but chains that change while they are read may make one.
    if (path.includes(rule)) continue;
    const met = flows.flatMap((flow) => meet(flow, rule));
    if (met.length === 0) continue;
    const { next, back } = pass(walk, met, flows, [...path, rule], rule);
    flows = joinFlows(next);
    returned.push(...back);
    if (flows.length === 0) break;
  }
  // What the chain has returned goes on as if it had never been there.
  walk.takers = walk.changes === changes ? takers : [];
  return joinFlows([...flows, ...returned]);
}

/** What a rule does with the packets that match it (`met`) and with the others of the flows. */
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
    case 'ours':
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

/** Without conditions, flows tell by themselves what has been taken; conditions that are not steady tell nothing. */
function take(walk: Walk, rule: Rule): void {
  const { conditions } = rule;
  if (conditions.length === 0 || conditions.some(({ kind }) => kind === 'other')) return;
  walk.takers = [...walk.takers, rule].slice(-MOST_TAKERS);
}

/**
 * The same rules with every run of RETURNs of the same conditions as one. Other agents list thousands of CIDRs that
 * way, and to take them away one by one would cost their number squared.
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

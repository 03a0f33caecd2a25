import { everything, rangeSet } from '../../cidr/ranges.ts';
import type { BaseChain, Rule } from './chain.ts';
import { afterMark, type Flow, joinFlows, meet, miss } from './flow.ts';

/** Packets that may get to a rule that decides, and how. */
export interface Reached extends Flow {
  /** The rule that they get to. */
  readonly rule: Rule;
  /** The rules that lead there, from the base chain on; the last one is the rule itself. */
  readonly path: readonly Rule[];
}

/**
 * The packets that may get to each rule that masquerades, ends the base chain, or leads to the agent's own
 * chain, in the order in which they meet them. A packet that fulfils the conditions gets there, unless an
 * earlier rule with conditions of its own has decided about it.
 */
export function reach(base: BaseChain): readonly Reached[] {
  const walk: Walk = {
    chains: new Map([...base.chains].map(([name, rules]) => [name, joinReturns(rules)])),
    found: [],
  };
  walkChain(walk, base.name, [{ destinations: everything(base.family), conditions: [] }], []);
  return walk.found;
}

interface Walk {
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
  readonly found: Reached[];
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
  const report = () => walk.found.push(...met.map((flow) => ({ ...flow, rule, path })));
  switch (outcome.kind) {
    case 'masquerades':
    case 'ends':
      report();
      return { next: missed(), back: [] };
    case 'ours':
      report();
      return { next: flows, back: [] };
    case 'returns':
      return { next: missed(), back: met };
    case 'jump':
      return { next: [...missed(), ...walkChain(walk, outcome.chain, met, path)], back: [] };
    case 'goto':
      return { next: missed(), back: walkChain(walk, outcome.chain, met, path) };
    case 'marks':
      return { next: [...missed(), ...met.map(afterMark)], back: [] };
    case 'goes on':
      return { next: flows, back: [] };
  }
}

/**
 * The same rules with every run of unconditional RETURNs as one. Other agents list thousands of CIDRs that way,
 * and to take them away one by one would cost their number squared.
 */
function joinReturns(rules: readonly Rule[]): readonly Rule[] {
  const joined: Rule[] = [];
  let run: Rule[] = [];
  const close = () => {
    const [first] = run;
    if (first === undefined) return;
    const ranges = run.flatMap(({ destinations }) => destinations.ranges);
    joined.push({ ...first, destinations: rangeSet(first.destinations.family, ranges) });
    run = [];
  };
  for (const rule of rules) {
    if (rule.outcome.kind === 'returns' && rule.conditions.length === 0) run.push(rule);
    else {
      close();
      joined.push(rule);
    }
  }
  close();
  return joined;
}

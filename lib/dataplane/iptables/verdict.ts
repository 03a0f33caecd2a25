import type { Family } from '../../cidr/address.ts';
import {
  difference,
  everything,
  intersection,
  nothing,
  type RangeSet,
  sameRanges,
  union,
} from '../../cidr/ranges.ts';
import { pairVerdicts, uniformVerdicts, type VerdictRange, type Verdicts } from '../../policy/verdicts.ts';
import type { KernelVerdicts } from '../dataplane.ts';
import { firstMatches } from '../first-match.ts';
import type { Rule } from '../rule.ts';
import { isOfNode, secondChain } from './chain.ts';
import type { IptablesObservation } from './observe.ts';
import { parseIptablesRule } from './parse-rule.ts';
import type { KernelRule } from './rule.ts';

/** What the chain does with packets to every address: the agent's own chain, or one that ip-masq-agent v1 or v2 made. */
export function kernelVerdicts(
  { family, rules, jumps, mayHaveMoreJumps, chains, obstacle }: IptablesObservation,
  chain: string,
): KernelVerdicts {
  const unknown = (kernelRule: string) => uniformVerdicts(family, { verdict: undefined, kernelRule });
  if (obstacle !== undefined) return { state: 'applied', ...unknown(obstacle.message) };
  if (jumps.length === 0 && mayHaveMoreJumps && chains.includes(chain))
    return { state: 'applied', ...unknown('a rule in POSTROUTING, which iptables cannot list') };
  if (jumps.length === 0)
    return {
      state: chains.includes(chain) ? 'no jump' : 'no chain',
      ...uniformVerdicts(family, { verdict: 'not_masqueraded' }),
    };
  const entered = firstMatches(
    family,
    jumps.map((spec) => parseIptablesRule(family, 'POSTROUTING', spec, chain)),
  );
  const inside =
    rules === undefined
      ? unknown(`chain ${chain}, which iptables cannot list`)
      : insideVerdicts(family, rules, chain);
  return { state: 'applied', ...ifEntered(entered, inside) };
}

/** What the rules do with the packets that enter the first chain. */
function insideVerdicts(family: Family, rules: readonly KernelRule[], chain: string): Verdicts {
  const rulesOf = (isMeant: (name: string) => boolean) =>
    rules
      // Verdicts are those of packets of pods.
      .filter((rule) => isMeant(rule.chain) && !isOfNode(rule))
      .map((rule) => parseIptablesRule(family, rule.chain, rule.spec, chain));
  const first = rulesOf((name) => name === chain);
  const second = rulesOf((name) => name !== chain);
  /** Where packets come from that no rule has decided about yet, and those that go on in the second chain. */
  let [undecided, allowed] = [everything(family), nothing(family)];
  let next = 0;
  for (const rule of first) {
    const sources = sourcesOf(rule, secondChain(chain));
    if (second.length === 0 && (sources === undefined || rule.conditions.length === 0)) break;
    if (undecided.ranges.length === 0) break;
    if (sources === undefined) return uniformVerdicts(family, { verdict: undefined, kernelRule: rule.text });
    if (rule.outcome.kind === 'goto') allowed = union(allowed, intersection(sources, undecided));
    undecided = difference(undecided, sources);
    next += 1;
  }
  if (second.length > 0) return { ...firstMatches(family, second), from: allowed };
  return { ...firstMatches(family, first.slice(next)), from: next === 0 ? undefined : undecided };
}

/** Where packets come from that a rule leaves alone or sends to the second chain, if it asks for nothing else. */
function sourcesOf({ destinations, conditions, outcome }: Rule, second: string): RangeSet | undefined {
  const all = everything(destinations.family);
  const [condition, ...more] = conditions;
  if (!sameRanges(destinations.ranges, all.ranges) || more.length > 0) return undefined;
  if (outcome.kind !== 'returns' && (outcome.kind !== 'goto' || outcome.chain !== second)) return undefined;
  return condition === undefined ? all : condition.sources;
}

/** The verdicts inside the chain for the packets that enter it; all others are left alone. */
function ifEntered(entered: Verdicts, inside: Verdicts): Verdicts {
  const ranges = Array.from(pairVerdicts(entered, inside), ({ first, last, before, after }): VerdictRange => {
    if (before.verdict === 'masqueraded' || after.verdict === 'not_masqueraded')
      return { ...after, first, last };
    return { first, last, verdict: before.verdict, kernelRule: before.kernelRule };
  });
  return { family: entered.family, from: inside.from, ranges };
}

import { ADDRESS_BITS, type Address } from '../cidr/address.ts';
import { intersection, prefixesOf, type RangeSet } from '../cidr/ranges.ts';
import { unmasqueraded } from '../policy/flatten.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { type AuthorName, asksForMasquerade, authorOf } from './author.ts';
import type { BaseChain, Outcome } from './base-chain.ts';
import { type Condition, conditionText } from './condition.ts';
import { narrow, type Reached, reach } from './reach.ts';

/** A foreign rule that masquerades packets to some destinations. */
export interface ForeignRule {
  /** A key that stays the same for the same rule in the same place, with any policy. */
  readonly key: string;
  readonly family: Family;
  /** The base chain. */
  readonly where: string;
  /** The rules that lead to it, as their tool prints them; the last one is the rule itself. */
  readonly path: readonly string[];
  readonly destinations: RangeSet;
  /** Further conditions under which the rule masquerades a packet; empty if there are none. */
  readonly conditions: readonly string[];
  readonly author: AuthorName;
  /** What to do about it, in one sentence. */
  readonly remedy: string;
}

/** Foreign rules that may masquerade what the policy does not, in the order in which packets meet them. */
export function findForeignRules(baseChains: readonly BaseChain[], policy: Policy): readonly ForeignRule[] {
  return foreignRules(baseChains, unmasqueraded(policy));
}

/** Outcomes that end a base chain without masquerading; a chain after `goto` does not return. */
const ENDING: readonly Outcome['kind'][] = ['ends', 'returns', 'goto'];

/** What foreign rules mean for one address. */
export interface ForeignVerdict {
  /** Rules that may masquerade packets to it, with any policy. */
  readonly masquerading: readonly ForeignRule[];
  /** The path of a rule without conditions (ACCEPT, RETURN or similar) that ends the chain before the agent's jump. */
  readonly endedBy: { readonly where: string; readonly path: readonly string[] } | undefined;
}

/** The foreign rules that decide about packets to an address outside of the node. */
export function explainForeign(baseChains: readonly BaseChain[], { family, value }: Address): ForeignVerdict {
  const only: RangeSet = { family, ranges: [{ first: value, last: value }] };
  const narrowed = baseChains.filter((base) => base.family === family).map((base) => narrow(base, only));
  const ends = narrowed.flatMap((base) => endBeforeOwn(base, only) ?? []);
  return { masquerading: foreignRules(narrowed, only), endedBy: ends[0] };
}

/** The rule that ends a base chain before the agent's jump. Base chains without the jump do not matter. */
function endBeforeOwn(base: BaseChain, only: RangeSet): ForeignVerdict['endedBy'] {
  const reached = reach(base).filter(({ destinations }) => meets(destinations, only));
  const jumps = [...base.chains.values()].flat().filter(({ outcome }) => outcome.kind === 'own');
  if (jumps.length === 0 || reached.some(({ rule }) => rule.outcome.kind === 'own')) return undefined;
  const end = reached.find(
    ({ rule, conditions }) => ENDING.includes(rule.outcome.kind) && conditions.every(isOrdinary),
  );
  return end && { where: base.where, path: end.path.map(({ text }) => text) };
}

function foreignRules(baseChains: readonly BaseChain[], interesting: RangeSet): readonly ForeignRule[] {
  const rules = baseChains
    .filter(({ family }) => family === interesting.family)
    .flatMap((base) =>
      reach(base)
        .filter(({ rule }) => rule.outcome.kind === 'masquerades')
        .flatMap((reached) => foreignRule(base, reached, interesting) ?? []),
    );
  return [...new Map(rules.map((rule) => [rule.key, rule])).values()];
}

function foreignRule(base: BaseChain, reached: Reached, interesting: RangeSet): ForeignRule | undefined {
  const destinations = intersection(reached.destinations, interesting);
  const path = reached.path.map(({ text }) => text);
  const { name, remedy, marks } = authorOf(base.where, path);
  const asked = reached.conditions.some(
    (one) => one.kind === 'mark' && one.is && (marks || asksForMasquerade(one)),
  );
  if (destinations.ranges.length === 0 || asked || isHairpin(reached)) return undefined;
  const conditions = reached.conditions.filter((one) => !isOrdinary(one)).map(conditionText);
  const key = [base.where, ...path, ...conditions].join('\n');
  return {
    key,
    family: base.family,
    where: base.where,
    path,
    destinations,
    conditions,
    author: name,
    remedy,
  };
}

/** Whether the condition holds for ordinary packets: only packets of Services and host ports have such a mark. */
function isOrdinary(condition: Condition): boolean {
  return condition.kind === 'mark' && !condition.is && asksForMasquerade(condition);
}

/**
 * Whether the rule is only for a pod that reaches itself through a Service or a host port. portmap and Docker write one
 * rule for each pod, whose source is its destination. kube-proxy in IPVS mode has a set of such pairs.
 */
function isHairpin({ conditions, destinations, rule }: Reached): boolean {
  const texts = conditions.map(conditionText);
  const [host, ...more] = prefixesOf(rule.destinations);
  if (texts.some((text) => text.includes('KUBE-LOOP-BACK'))) return true;
  if (host === undefined || more.length > 0 || host.length !== ADDRESS_BITS[destinations.family])
    return false;
  const address = host.text.replace(/\/\d+$/, '');
  return [`source ${host.text}`, `ip saddr ${address}`, `ip6 saddr ${address}`].some((text) =>
    texts.includes(text),
  );
}

function meets(a: RangeSet, b: RangeSet): boolean {
  return intersection(a, b).ranges.length > 0;
}

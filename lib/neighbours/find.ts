import { ADDRESS_BITS, type Address } from '../cidr/address.ts';
import { intersection, prefixesOf, type RangeSet } from '../cidr/ranges.ts';
import { unmasqueraded } from '../policy/flatten.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { type AuthorName, asksForMasquerade, authorOf } from './author.ts';
import type { BaseChain, Outcome } from './base-chain.ts';
import { type Condition, conditionText } from './condition.ts';
import { narrow, type Reached, reach } from './reach.ts';

/** A rule of somebody else that masquerades packets to some destinations. */
export interface ForeignRule {
  /** Equal for the same rule in the same place at another time, whatever the policy. */
  readonly key: string;
  readonly family: Family;
  /** The base chain. */
  readonly where: string;
  /** The rules that lead to it, as their tool writes them; the last one is the rule itself. */
  readonly path: readonly string[];
  readonly destinations: RangeSet;
  /** What else must be so for the rule to masquerade a packet; empty where nothing else matters. */
  readonly conditions: readonly string[];
  readonly author: AuthorName;
  /** One sentence: what to do about it. */
  readonly remedy: string;
}

/** Rules that may masquerade what the policy leaves alone, in the order in which packets meet them. */
export function findForeignRules(baseChains: readonly BaseChain[], policy: Policy): readonly ForeignRule[] {
  return foreignRules(baseChains, unmasqueraded(policy));
}

/** How packets may leave a base chain without being masqueraded; a chain that it goes to does not come back. */
const ENDING: readonly Outcome['kind'][] = ['ends', 'returns', 'goto'];

/** What foreign rules mean for one address. */
export interface ForeignVerdict {
  /** Rules that may masquerade packets to it, whatever the policy says of it. */
  readonly masquerading: readonly ForeignRule[];
  /** A rule without conditions (ACCEPT, RETURN or the like) that ends the chain before the agent's own is met; its path. */
  readonly endedBy: { readonly where: string; readonly path: readonly string[] } | undefined;
}

/** Which foreign rules decide about packets to an address that is not one of the node's own. */
export function explainForeign(baseChains: readonly BaseChain[], { family, value }: Address): ForeignVerdict {
  const only: RangeSet = { family, ranges: [{ first: value, last: value }] };
  const narrowed = baseChains.filter((base) => base.family === family).map((base) => narrow(base, only));
  const ends = narrowed.flatMap((base) => endBeforeOurs(base, only) ?? []);
  return { masquerading: foreignRules(narrowed, only), endedBy: ends[0] };
}

/** Only one base chain is ended: those without our jump do not matter. */
function endBeforeOurs(base: BaseChain, only: RangeSet): ForeignVerdict['endedBy'] {
  const reached = reach(base).filter(({ destinations }) => meets(destinations, only));
  const jumps = [...base.chains.values()].flat().filter(({ outcome }) => outcome.kind === 'ours');
  if (jumps.length === 0 || reached.some(({ rule }) => rule.outcome.kind === 'ours')) return undefined;
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

/** Packets that no Service or host port is about have no such mark: not having it is nothing to tell. */
function isOrdinary(condition: Condition): boolean {
  return condition.kind === 'mark' && !condition.is && asksForMasquerade(condition);
}

/**
 * Whether it is only about a pod that reaches itself through a Service or a host port: portmap and Docker write one
 * rule per pod whose source is its destination; kube-proxy in IPVS mode has a set of such pairs.
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

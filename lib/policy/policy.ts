import type { Address, Family } from '../cidr/address.ts';
import type { Prefix } from '../cidr/prefix.ts';
import { PrefixMap } from '../cidr/prefix-map.ts';
import { isInSome, type RangeSet, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';
import type { MergedConfig } from '../config/config.ts';
import type { Located, Origin } from '../text/origin.ts';

/** The types of addresses in a policy, for importers that need no more of lib/cidr. */
export type { Address, Family };

/** `return` keeps the source address of a packet, `masquerade` replaces it by the node's address. */
export type Verdict = 'return' | 'masquerade';

/** The verdicts in words. */
export const VERDICT_TEXT: Readonly<Record<Verdict, string>> = {
  return: 'not masqueraded',
  masquerade: 'masqueraded',
};

/** A prefix with a verdict, and the place that asks for it. */
export interface Entry {
  readonly prefix: Prefix;
  readonly verdict: Verdict;
  readonly origin: Origin;
}

/**
 * What happens to traffic of one family. The longest prefix that holds the destination decides; among equal prefixes,
 * the first entry. If no prefix holds it, it is masqueraded.
 */
export interface Policy {
  readonly family: Family;
  /** The ranges that packets must come from; none if they may come from anywhere. All others are left alone. */
  readonly from: readonly Located<Prefix>[];
  /** Link-local first, then in merge order the entries that return, then the exceptions. */
  readonly entries: readonly Entry[];
}

/** The families for which the agent keeps rules. */
export function keptFamilies(enableIPv6: boolean): readonly Family[] {
  return enableIPv6 ? ['IPv4', 'IPv6'] : ['IPv4'];
}

/** The policy of one family that a merged config asks for. */
export function compilePolicy(config: MergedConfig, family: Family): Policy {
  const masqLinkLocal = (family === 'IPv4' ? config.masqLinkLocal : config.masqLinkLocalIPv6).value;
  const { prefix, rfc } = LINK_LOCAL[family];
  const linkLocal: Entry = { prefix, verdict: 'return', origin: { kind: 'built-in', reason: rfc } };
  const entries = (located: readonly Located<Prefix>[], verdict: Verdict): Entry[] =>
    located
      .filter(({ value }) => value.family === family)
      .map(({ value, origin }) => ({ prefix: value, verdict, origin }));
  return {
    family,
    from: config.masqueradeFromCIDRs.filter(({ value }) => value.family === family),
    entries: [
      ...(masqLinkLocal ? [] : [linkLocal]),
      ...entries(config.nonMasqueradeCIDRs, 'return'),
      ...entries(config.masqueradeCIDRs, 'masquerade'),
    ],
  };
}

/** The ranges that packets of a policy must come from without those inside another; none if they may come from anywhere. */
export function outermost(from: Policy['from']): Policy['from'] {
  const all = new PrefixMap<boolean>();
  for (const { value } of from) all.set(value, true);
  return from.filter(({ value }) => all.nearestAround(value) === undefined);
}

/** The addresses that packets must come from; undefined if they may come from anywhere. */
export function fromSet({ family, from }: Pick<Policy, 'family' | 'from'>): RangeSet | undefined {
  if (from.length === 0) return undefined;
  return rangeSet(
    family,
    from.map(({ value }) => rangeOf(value)),
  );
}

/** A function that finds the entry that decides for an address of the family; undefined if there is none. */
export function decider(policy: Policy): (address: Address) => Entry | undefined {
  const map = new PrefixMap<Entry>();
  for (const entry of policy.entries) {
    if (map.get(entry.prefix) === undefined) map.set(entry.prefix, entry);
  }
  return (address) => map.longestMatch(address);
}

/**
 * What happens to packets from one address to another of the same family; undefined if the policy has nothing to say about
 * packets from there.
 */
export type FlowVerdict = (source: Address, destination: Address) => Verdict | undefined;

/** The verdicts of these policies. Packets of a family without a policy are left alone. */
export function flowVerdict(policies: readonly Policy[]): FlowVerdict {
  const deciders = new Map(
    policies.map((policy) => [policy.family, { decide: decider(policy), from: fromSet(policy)?.ranges }]),
  );
  return (source, destination) => {
    const { decide, from } = deciders.get(destination.family) ?? {};
    if (decide === undefined) return 'return';
    if (from !== undefined && !isInSome(source.value, from)) return undefined;
    return decide(destination)?.verdict ?? 'masquerade';
  };
}

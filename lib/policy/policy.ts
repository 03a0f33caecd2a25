import type { Address, Family } from '../cidr/address.ts';
import type { Prefix } from '../cidr/prefix.ts';
import { PrefixMap } from '../cidr/prefix-map.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';
import type { MergedConfig } from '../config/config.ts';
import type { Located, Origin } from '../text/origin.ts';

/** The words of addresses that a policy is written in, for those who know nothing else of them. */
export type { Address, Family };

/** `return` leaves a packet alone, `masquerade` gives it the node's address. */
export type Verdict = 'return' | 'masquerade';

/** One prefix with a verdict, and who asked for it. */
export interface Entry {
  readonly prefix: Prefix;
  readonly verdict: Verdict;
  readonly origin: Origin;
}

/**
 * What happens to traffic of one family: the longest prefix that holds the destination decides, among
 * equal prefixes the first entry; where none holds it, it is masqueraded.
 */
export interface Policy {
  readonly family: Family;
  /** Link-local first, then in merge order: what is not masqueraded, then the exceptions. */
  readonly entries: readonly Entry[];
}

/** The families whose rules are kept. */
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
    entries: [
      ...(masqLinkLocal ? [] : [linkLocal]),
      ...entries(config.nonMasqueradeCIDRs, 'return'),
      ...entries(config.masqueradeCIDRs, 'masquerade'),
    ],
  };
}

/** A function that tells which entry decides for an address of the policy's family; undefined where none does. */
export function decider(policy: Policy): (address: Address) => Entry | undefined {
  const map = new PrefixMap<Entry>();
  for (const entry of policy.entries) {
    if (map.get(entry.prefix) === undefined) map.set(entry.prefix, entry);
  }
  return (address) => map.longestMatch(address);
}

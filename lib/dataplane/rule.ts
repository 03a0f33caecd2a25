import type { Family } from '../cidr/address.ts';
import { everything, intersection, type RangeSet } from '../cidr/ranges.ts';

/** What a rule does with a packet that it matches, as far as it decides about masquerading. */
export type Outcome =
  /**
   * Source NAT of any kind: MASQUERADE, SNAT, NETMAP. `to` is what packets leave with, as the tool writes it: an address,
   * a range, ports; undefined if the kernel chooses an address of the link.
   */
  | { readonly kind: 'masquerades'; readonly to?: string | undefined }
  /** The base chain is done with the packet, which goes its way without NAT: ACCEPT. */
  | { readonly kind: 'ends' }
  /** The base chain is done with the packet: DROP, QUEUE and the like; in the agent's own chains also what is not understood. */
  | { readonly kind: 'else' }
  | { readonly kind: 'returns' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /** Leads to the agent's own chain. */
  | { readonly kind: 'own' }
  /** The next rule follows. It is a guess for a target that is not known. */
  | { readonly kind: 'goes on'; readonly isGuess?: true };

/** A rule of iptables or nftables, for packets that are not for the node itself. */
export interface Rule {
  /** Evidence for people: the rule as its tool writes it, with its chain. */
  readonly text: string;
  /** The destinations that it matches; all if it does not ask for any. */
  readonly destinations: RangeSet;
  /** What else must be so; all of it. */
  readonly conditions: readonly Condition[];
  readonly outcome: Outcome;
}

/** What a rule asks of a packet besides its destination. */
interface Condition {
  readonly text: string;
  /** The sources that it asks for; undefined if it asks for something else. */
  readonly sources?: RangeSet | undefined;
}

/** What one match of a rule asks: some destinations, a condition, or nothing that could fail. */
export type Test = RangeSet | Condition | undefined;

/** A rule that asks for all of the tests. */
export function ruleOf(family: Family, text: string, tests: readonly Test[], outcome: Outcome): Rule {
  let destinations: RangeSet | undefined;
  const conditions: Condition[] = [];
  for (const test of tests) {
    if (test === undefined) continue;
    if ('ranges' in test) destinations = destinations === undefined ? test : intersection(destinations, test);
    else conditions.push(test);
  }
  return { text, destinations: destinations ?? everything(family), conditions, outcome };
}

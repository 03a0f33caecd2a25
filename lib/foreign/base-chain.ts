import type { Family } from '../cidr/address.ts';
import { everything, intersection, nothing, type RangeSet } from '../cidr/ranges.ts';
import { isMasqueradeMark } from './author.ts';

/** What a rule does with a packet that it matches, as far as it decides about masquerading. */
export type Outcome =
  /** Source NAT of any kind: MASQUERADE, SNAT, NETMAP. */
  | { readonly kind: 'masquerades' }
  /** The base chain is done with the packet, without NAT: ACCEPT, DROP and the like. */
  | { readonly kind: 'ends' }
  | { readonly kind: 'returns' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /** Leads to the agent's own chain. */
  | { readonly kind: 'own' }
  /** The next rule follows. */
  | { readonly kind: 'goes on' };

/** A rule of iptables or nftables. */
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
export interface Condition {
  readonly text: string;
  /** Whether a packet gives every rule the same answer: its source and interfaces, but not a limit, mark or chance. */
  readonly isSteady: boolean;
}

/** What one match of a rule asks: some destinations, a condition, or nothing that could fail. */
export type Test = RangeSet | Condition | undefined;

/** All tests of a rule together. */
export function combine(family: Family, tests: readonly Test[]): Pick<Rule, 'destinations' | 'conditions'> {
  let destinations = everything(family);
  const conditions: Condition[] = [];
  for (const test of tests) {
    if (test === undefined) continue;
    if ('ranges' in test) destinations = intersection(destinations, test);
    else conditions.push(test);
  }
  return { destinations, conditions };
}

/**
 * What a match of the mark asks of a packet that no one has marked for masquerading. Only such packets are looked at:
 * kube-proxy and portmap mark what they want to be masqueraded.
 *
 * @param place the names of table and chain
 */
export function markTest(family: Family, place: string, value: number, mask: number, is: boolean): Test {
  // "The bit is not set" is the same as "the mark is not that bit".
  const isClear = value === 0 && mask !== 0 && (mask & (mask - 1)) === 0;
  const [asked, has] = isClear ? [mask, !is] : [value, is];
  if (isMasqueradeMark(place, asked, mask)) return has ? nothing(family) : undefined;
  const text = `mark ${has ? '' : 'not '}${hex(asked)}${mask === 0xffffffff ? '' : `/${hex(mask)}`}`;
  return { text, isSteady: false };
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

/** A chain of type nat at the postrouting hook, as packets of one family meet it. */
export interface BaseChain {
  /** Such as `iptables (nft) nat POSTROUTING` or `nftables inet kindnet-ipmasq postrouting`. */
  readonly where: string;
  readonly family: Family;
  readonly name: string;
  /** The rules of this chain and of every chain that it leads to. One that is missing passes everything on. */
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
  /** What could not be read of them, in words. */
  readonly unread: readonly string[];
}

/** Reads a chain: its rules, why they cannot be read (which names the chain), or undefined if there is no such chain. */
export type ReadRules = (chain: string) => Promise<readonly Rule[] | string | undefined>;

/** Reads a base chain and, each once, the chains that it leads to, at most so many; undefined if there is none. */
export async function readBaseChain(
  base: Pick<BaseChain, 'where' | 'family' | 'name'>,
  most: number,
  readRules: ReadRules,
): Promise<BaseChain | undefined> {
  const chains = new Map<string, readonly Rule[]>();
  const unread: string[] = [];
  const names = new Set([base.name]);
  // A Set is iterated in the order of insertion, names that are added on the way included.
  for (const name of names) {
    if (chains.size + unread.length === most) {
      // These words do not change if chains come and go, so that the agent logs them once.
      unread.push(`only ${most} of the chains that it leads to are read`);
      break;
    }
    const rules = await readRules(name);
    if (rules === undefined && name === base.name) return undefined;
    if (rules === undefined || typeof rules === 'string') unread.push(rules ?? `chain ${name}`);
    else {
      chains.set(name, rules);
      for (const { outcome } of rules) if ('chain' in outcome) names.add(outcome.chain);
    }
  }
  return { ...base, chains, unread };
}

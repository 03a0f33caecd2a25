import type { Family } from '../cidr/address.ts';
import type { RangeSet } from '../cidr/ranges.ts';
import type { Condition } from './condition.ts';

/** What a rule does with a packet that it matches, if it matters for masquerading. */
export type Outcome =
  /** Source NAT of any kind: MASQUERADE, SNAT, NETMAP. */
  | { readonly kind: 'masquerades' }
  /** Ends the base chain without NAT: ACCEPT, DROP and similar. */
  | { readonly kind: 'ends' }
  | { readonly kind: 'returns' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /** Leads to the agent's chain. */
  | { readonly kind: 'own' }
  /** Changes the packet, mostly its mark; the next rule follows. */
  | { readonly kind: 'changes' }
  /** Does nothing that matters here; the next rule follows. */
  | { readonly kind: 'goes on' };

/** A rule of iptables or nftables. */
export interface Rule {
  /** The rule with its chain, as its tool prints it; evidence for people. */
  readonly text: string;
  /** The destinations that it matches; all if it does not name any. */
  readonly destinations: RangeSet;
  /** The other conditions; all must hold. */
  readonly conditions: readonly Condition[];
  readonly outcome: Outcome;
}

/** A chain of type nat at the postrouting hook, for packets of one family. */
export interface BaseChain {
  /** Such as `iptables (nft) nat POSTROUTING` or `nftables inet kindnet-ipmasq postrouting`. */
  readonly where: string;
  readonly family: Family;
  readonly name: string;
  /** The rules of this chain and of all chains that it leads to. A missing chain is like an empty one. */
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
  /** The chains that could not be read, in words. */
  readonly unread: readonly string[];
}

/** Reads a chain: its rules, or why it is unreadable; undefined if there is no such chain. */
export type ReadRules = (chain: string) => Promise<readonly Rule[] | Unreadable | undefined>;

export interface Unreadable {
  /** The reason in words, with the name of the chain. */
  readonly reason: string;
}

/** Reads a base chain, and once each the chains that it leads to, up to `most`; undefined if there is no base chain. */
export async function collectChains(
  base: string,
  most: number,
  readRules: ReadRules,
): Promise<Pick<BaseChain, 'chains' | 'unread'> | undefined> {
  const chains = new Map<string, readonly Rule[]>();
  const unread: string[] = [];
  const names = new Set([base]);
  // The iteration of a Set includes what is added during the iteration.
  for (const name of names) {
    if (chains.size + unread.length === most) {
      // Without names or counts of chains, so that the text stays the same and is logged only once.
      unread.push(`only ${most} of the chains that it leads to are read`);
      break;
    }
    const rules = await readRules(name);
    if (rules === undefined && name === base) return undefined;
    if (rules === undefined) unread.push(`chain ${name}`);
    else if ('reason' in rules) unread.push(rules.reason);
    else {
      chains.set(name, rules);
      for (const to of rules.flatMap(leadsTo)) names.add(to);
    }
  }
  return { chains, unread };
}

function leadsTo({ outcome }: Rule): readonly string[] {
  return outcome.kind === 'jump' || outcome.kind === 'goto' ? [outcome.chain] : [];
}

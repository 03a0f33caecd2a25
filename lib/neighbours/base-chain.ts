import type { Family } from '../cidr/address.ts';
import type { RangeSet } from '../cidr/ranges.ts';
import type { Condition } from './condition.ts';

/** What a rule does with a packet that it matches, as far as it decides about masquerading. */
export type Outcome =
  /** Source NAT of any kind: MASQUERADE, SNAT, NETMAP. */
  | { readonly kind: 'masquerades' }
  /** The base chain is done with the packet, without NAT: ACCEPT, DROP and the like. */
  | { readonly kind: 'ends' }
  | { readonly kind: 'returns' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /** Leads to the agent's own chain. */
  | { readonly kind: 'ours' }
  /** Changes the packet, mostly its mark, and the next rule follows. */
  | { readonly kind: 'changes' }
  /** Nothing that matters here, and the next rule follows. */
  | { readonly kind: 'goes on' };

/** A rule of iptables or nftables. */
export interface Rule {
  /** Evidence for people: the rule as its tool writes it, with its chain. */
  readonly text: string;
  /** The destinations that it admits; all where it says nothing of them. */
  readonly destinations: RangeSet;
  /** What else it asks of a packet; all must hold. */
  readonly conditions: readonly Condition[];
  readonly outcome: Outcome;
}

/** A chain of type nat at the postrouting hook, as it meets packets of one family. */
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

/** What a tool says of a chain: its rules, or why it cannot tell; undefined where it knows no such chain. */
export type ReadRules = (chain: string) => Promise<readonly Rule[] | Unreadable | undefined>;

export interface Unreadable {
  /** In words; names the chain. */
  readonly reason: string;
}

/** Reads a base chain and, each once, the chains that it leads to, at most so many; undefined where there is none. */
export async function collectChains(
  base: string,
  most: number,
  readRules: ReadRules,
): Promise<Pick<BaseChain, 'chains' | 'unread'> | undefined> {
  const chains = new Map<string, readonly Rule[]>();
  const unread: string[] = [];
  const names = new Set([base]);
  // A Set is iterated in order of insertion, what is added on the way included.
  for (const name of names) {
    if (chains.size + unread.length === most) {
      // In words that stay the same whatever chains come and go: who has told it once need not tell it again.
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

import type { Family } from '../../cidr/address.ts';
import type { RangeSet } from '../../cidr/ranges.ts';
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
  /** Changes the packet's mark, and the next rule follows. */
  | { readonly kind: 'marks' }
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
  /** Chains that it leads to and that could not be read. */
  readonly unread: readonly string[];
}

/** What a tool says of a chain; undefined where there is none that it could read. */
export type ReadRules = (chain: string) => Promise<readonly Rule[] | undefined>;

/** Reads a base chain and, each once, the chains that it leads to, at most so many; undefined where it cannot be read. */
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
    const rules = chains.size < most ? await readRules(name) : undefined;
    if (rules === undefined) {
      unread.push(name);
      continue;
    }
    chains.set(name, rules);
    for (const { outcome } of rules) {
      if (outcome.kind === 'jump' || outcome.kind === 'goto') names.add(outcome.chain);
    }
  }
  return chains.has(base) ? { chains, unread } : undefined;
}

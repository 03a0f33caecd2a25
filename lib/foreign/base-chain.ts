import type { Family } from '../cidr/address.ts';
import type { Rule } from '../dataplane/rule.ts';
import { TooManyRules } from './budget.ts';

/** A chain of type nat at the postrouting hook, or one before connection tracking, as packets of one family meet it. */
export interface BaseChain {
  /** Such as `iptables (nft) nat POSTROUTING` or `nftables inet kindnet-ipmasq postrouting`. */
  readonly chainText: string;
  readonly family: Family;
  readonly name: string;
  /** Whether packets are known to meet it after the agent's own rules, which are in another one. */
  readonly isAfterOwn?: boolean;
  /** The rules of this chain and of every chain that it leads to. One that is missing passes everything on. */
  readonly chains: ReadonlyMap<string, readonly Rule[]>;
  /** What could not be read of them, in words. */
  readonly unread: readonly string[];
  /** Why the rest is not read: the budget is used up. */
  readonly cutBy?: TooManyRules;
}

/** Reads a chain: its rules, why they cannot be read (which names the chain), or undefined if there is no such chain. */
export type ReadRules = (chain: string) => Promise<readonly Rule[] | string | undefined>;

function tooMany(error: unknown): TooManyRules {
  if (!(error instanceof TooManyRules)) throw error;
  return error;
}

/** Reads a base chain and, each once, the chains that it leads to, at most so many; undefined if there is none. */
export async function readBaseChain(
  base: Pick<BaseChain, 'chainText' | 'family' | 'name'>,
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
    const rules = await readRules(name).catch(tooMany);
    if (rules instanceof TooManyRules) return { ...base, chains, unread, cutBy: rules };
    if (rules === undefined && name === base.name) return undefined;
    if (rules === undefined || typeof rules === 'string') unread.push(rules ?? `chain ${name}`);
    else {
      chains.set(name, rules);
      for (const { outcome } of rules) if ('chain' in outcome) names.add(outcome.chain);
    }
  }
  return { ...base, chains, unread };
}

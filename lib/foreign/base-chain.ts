import type { Family } from '../cidr/address.ts';
import type { Rule } from '../dataplane/rule.ts';
import { type Budget, TooManyRules } from './budget.ts';

/** A chain, of which only what it leads to is kept: a node can hold more foreign rules than fit into memory. */
export interface ReadChain {
  /** The chains that its rules lead to, and how many do. */
  readonly targets: ReadonlyMap<string, number>;
  /** How many of its rules lead to the agent's own chain. */
  readonly toOwn: number;
  /**
   * Reads its rules again, and visits each in its order.
   *
   * @throws {TooManyRules | NetlinkError}
   */
  each(visit: (rule: Rule) => void, budget: Budget): Promise<void>;
}

/** A chain of type nat at the postrouting hook, one before connection tracking, or one of type filter, as packets of one family meet it. */
export interface BaseChain {
  /** Such as `iptables (nft) nat POSTROUTING` or `nftables inet kindnet-ipmasq postrouting`. */
  readonly chainText: string;
  readonly family: Family;
  readonly name: string;
  /** Whether it is one of type filter, in which a rule can only write addresses into packets. */
  readonly isFilter?: boolean;
  /** Whether packets are known to meet it after the agent's own rules, which are in another one. */
  readonly isAfterOwn?: boolean;
  /** This chain and every chain that it leads to. One that is missing passes everything on. */
  readonly chains: ReadonlyMap<string, ReadChain>;
  /** What could not be read of them, in words. */
  readonly unread: readonly string[];
  /** Why the rest is not read: the budget is used up. */
  readonly cutBy?: TooManyRules;
}

/** Reads a chain; a text says why it cannot be read, and names it; undefined if there is no such chain. */
export type ReadRules = (chain: string) => Promise<ReadChain | string | undefined>;

/** A chain whose rules a tool has listed as texts. */
export async function listedChain(
  specs: readonly string[],
  ruleOf: (spec: string) => Rule,
  budget: Budget,
): Promise<ReadChain> {
  const targets = new Map<string, number>();
  let toOwn = 0;
  await budget.each(specs, (spec) => {
    const { outcome } = ruleOf(spec);
    if (outcome.kind === 'own') toOwn += 1;
    if ('chain' in outcome) addTarget(targets, outcome.chain);
  });
  return {
    targets,
    toOwn,
    each: (visit, spent) => spent.each(specs, (spec) => visit(ruleOf(spec))),
  };
}

export function addTarget(targets: Map<string, number>, chain: string, rules = 1): void {
  targets.set(chain, (targets.get(chain) ?? 0) + rules);
}

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
  const chains = new Map<string, ReadChain>();
  const unread: string[] = [];
  const names = new Set([base.name]);
  // A Set is iterated in the order of insertion, names that are added on the way included.
  for (const name of names) {
    if (chains.size + unread.length === most) {
      // These words do not change if chains come and go, so that the agent logs them once.
      unread.push(`only ${most} of the chains that it leads to are read`);
      break;
    }
    const chain = await readRules(name).catch(tooMany);
    if (chain instanceof TooManyRules) return { ...base, chains, unread, cutBy: chain };
    if (chain === undefined && name === base.name) return undefined;
    if (chain === undefined || typeof chain === 'string') unread.push(chain ?? `chain ${name}`);
    else {
      chains.set(name, chain);
      for (const target of chain.targets.keys()) names.add(target);
    }
  }
  return { ...base, chains, unread };
}

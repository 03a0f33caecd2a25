import type { Address, Family } from '../cidr/address.ts';
import type { NodeRules } from '../neighbours/read-node.ts';
import type { Entry, Policy, Verdict } from '../policy/policy.ts';

/**
 * Where a policy lives in the kernel: observe what is there, plan what would change, apply just that.
 * What apply does is one transaction: entirely done, or (with an error) nothing done.
 */
export interface Dataplane {
  /** For logs: `iptables 1.8.9 (nft)`, `nftables 1.0.6`. */
  readonly name: string;
  /** Why this dataplane and mode, in words. */
  readonly reason: string;
  /** @throws {DataplaneError} */
  observe(family: Family): Promise<Observed>;
  /**
   * What this process itself has put there last, if that is known: reading it back can cost far more than a small
   * change. Whatever somebody else has changed since is not in it, and makes apply fail where it matters.
   */
  recall(family: Family): Observed | undefined;
  /** How many rules, or elements of sets, the policy makes. */
  size(policy: Policy): number;
  /** @throws {DataplaneError} */
  apply(plan: Plan): Promise<void>;
  /**
   * What the rules of a policy that is in the kernel have counted. Lists nobody else's rules.
   *
   * @throws {DataplaneError} `raced` where this process has changed them meanwhile, too
   */
  count(policy: Policy): Promise<Counts>;
  /**
   * Every rule of the node, whoever made it and in whatever way, that may masquerade. Lists no more than the chains
   * of NAT at the hook postrouting and what they lead to.
   *
   * @throws {DataplaneError}
   */
  survey(families: readonly Family[]): Promise<NodeRules>;
}

/** What the kernel held of ours in one family, at one moment. */
export interface Observed {
  /**
   * What makes the kernel hold exactly this policy; undefined where it does already.
   *
   * @throws {DataplaneError} where what is there is not to be touched
   */
  plan(policy: Policy): Plan | undefined;
  /** What removes all that is ours; undefined where nothing is. */
  planRemoval(): Plan | undefined;
  /** What the rules of ours do with packets to an address. */
  verdict(address: Address): KernelVerdict;
}

/** A transaction that has not happened yet. */
export interface Plan {
  readonly family: Family;
  /** How the kernel differs from the policy. */
  readonly found: readonly Difference[];
  readonly added: readonly PlannedRule[];
  readonly removed: readonly PlannedRule[];
  /** How many rules are there already, and stay. */
  readonly kept: number;
  /** All of ours that the kernel holds, in order. */
  readonly current: readonly string[];
  /** All of ours that it will hold, in the same words where it is the same rule. */
  readonly wanted: readonly PlannedRule[];
  /** Whether all rules are made anew, those that stay among them: they count from zero then. */
  readonly remakes: boolean;
  /** Whether another agent, doing the same at the same time, could spoil the result: observe once more then. */
  readonly recheck: boolean;
  /** What the tool will read: the transaction as text. */
  readonly script: string;
}

/** A rule, jump or element that comes, goes or stays. */
export interface PlannedRule {
  /** The rule as the tool prints it. */
  readonly text: string;
  /** The entry that asks for it; undefined for a rule that no entry of the policy asks for. */
  readonly entry: Entry | undefined;
}

/** Every way in which the kernel can differ. */
export const DIFFERENCES = [
  'no readable chain',
  'rules differ',
  'rule order differs',
  'jump missing',
  'jump duplicated',
  'jump outdated',
  'chain left over',
  'table missing',
  'elements differ',
  'table left over',
] as const;

export type Difference = (typeof DIFFERENCES)[number];

/** What becomes of a packet by the rules of ours in the kernel; rules of others may do more to it. */
export interface KernelVerdict {
  /** Without chain, or without a jump into it, packets are left alone; what somebody has changed, nobody can tell. */
  readonly state: 'applied' | 'no chain' | 'no jump' | 'changed';
  readonly verdict: Verdict;
  /** The rule that decides, or that is not ours, as the tool prints it; undefined where there is none. */
  readonly rule: string | undefined;
}

/** What the rules of one family have counted. */
export interface Counts {
  /** How often this process has made all of them anew: what was counted before says nothing of what is counted then. */
  readonly remade: number;
  readonly rules: readonly RuleCount[];
}

/** What one rule, or element of a set, has counted since it was made. */
export interface RuleCount extends EntryCount {
  /** As the tool prints it: equal for the same rule at another time. */
  readonly rule: string;
}

/** First packets of connections, and their bytes. */
export interface EntryCount {
  /** Undefined for what no entry holds. */
  readonly entry: Entry | undefined;
  readonly verdict: Verdict;
  readonly packets: bigint;
  readonly bytes: bigint;
}

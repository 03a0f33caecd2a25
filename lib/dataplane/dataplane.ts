import type { Address, Family } from '../cidr/address.ts';
import type { Entry, Policy, Verdict } from '../policy/policy.ts';
import type { NodeRules } from './foreign/node.ts';

/**
 * Where a policy lives in the kernel: observe what is there, plan what would change, apply just that.
 * What apply does is one transaction: entirely done, or (with an error) nothing done.
 */
export interface Dataplane<Observation = unknown> {
  /** For logs: `iptables (nft)`. */
  readonly name: string;
  /** Why this dataplane and mode, in words. */
  readonly reason: string;
  /** @throws {DataplaneError} */
  observe(family: Family): Promise<Observation>;
  /** What makes the kernel hold exactly this policy; undefined where it does already. */
  plan(observation: Observation, policy: Policy): Plan | undefined;
  /** What removes all that is ours; undefined where nothing is. */
  planRemoval(observation: Observation): Plan | undefined;
  /** What the rules of ours that were observed do with packets to an address. */
  verdict(observation: Observation, address: Address): KernelVerdict;
  /**
   * Every rule of the node, whoever made it and in whatever way, that may masquerade. Lists no more than the chains
   * of NAT at the hook postrouting and what they lead to.
   *
   * @throws {DataplaneError}
   */
  survey(families: readonly Family[]): Promise<NodeRules>;
  /** @throws {DataplaneError} */
  apply(plan: Plan): Promise<void>;
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
  /** All of ours that the kernel holds, in order: the jump, then the rules. */
  readonly current: readonly string[];
  /** All of ours that it will hold, in the same words where it is the same rule. */
  readonly wanted: readonly PlannedRule[];
  /** Whether another agent, doing the same at the same time, could spoil the result: observe once more then. */
  readonly recheck: boolean;
  /** What the tool will read: the transaction as text. */
  readonly script: string;
}

export interface PlannedRule {
  /** The rule as the tool prints it. */
  readonly text: string;
  /** The entry that asks for it; undefined for a rule that no entry of the policy asks for. */
  readonly entry: Entry | undefined;
}

/** What becomes of a packet by the rules of ours in the kernel; rules of others may do more to it. */
export interface KernelVerdict {
  /** Without chain, or without a jump into it, packets are left alone. */
  readonly state: 'applied' | 'no chain' | 'no jump';
  readonly verdict: Verdict;
  /** The rule that decides, as the tool prints it; undefined where none does. */
  readonly rule: string | undefined;
}

export type Difference =
  | 'no readable chain'
  | 'rules differ'
  | 'rule order differs'
  | 'jump missing'
  | 'jump duplicated'
  | 'jump outdated'
  | 'chain left over';

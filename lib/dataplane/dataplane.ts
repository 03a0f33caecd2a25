import type { Address, Family } from '../cidr/address.ts';
import type { Entry, Policy, Verdict } from '../policy/policy.ts';
import type { IptablesMode } from './options.ts';

/** Every comment in the agent's rules begins so. */
export const COMMENT_START = 'ip-masq-agent: ';

/**
 * The place in the kernel where a policy is kept: observe what is there, plan what would change, apply exactly that.
 * It reads and changes the agent's own rules only. All methods throw DataplaneError.
 */
export interface Dataplane {
  /** For logs: `iptables 1.8.9 (nft)`, `nftables 1.0.6`. */
  readonly name: string;
  /** Why this dataplane and mode are used, in words. */
  readonly reason: string;
  /** The commands of iptables that it runs; undefined if it runs others. */
  readonly iptables: IptablesCommands | undefined;
  /**
   * Looks at the agent's rules of one family.
   *
   * @param from `memory` if what this process wrote last is good enough: with many entries, reading them back costs far
   * more than a small change. If somebody else has changed the rules since, apply fails with `raced`.
   */
  observe(family: Family, from?: 'kernel' | 'memory'): Promise<Observed>;
  /** Carries out a plan as one transaction: entirely or, with an error, not at all. */
  apply(plan: Plan): Promise<void>;
  /** Reads what the rules of a policy that is in the kernel have counted; `raced` if they changed meanwhile. */
  count(policy: Policy): Promise<Counts>;
}

/** What the kernel held of the agent's rules in one family, at one moment. */
export interface Observed {
  /** What makes the kernel hold exactly this policy; undefined if it does already. */
  plan(policy: Policy): Plan | undefined;
  /** What removes all of the agent's rules; undefined if there are none. */
  remove(): Plan | undefined;
  /** What the agent's rules do with packets to an address. */
  verdict(address: Address): KernelVerdict;
}

/** A dataplane that the machine has, and the families in which it can hold the agent's rules. */
export interface Installed {
  readonly dataplane: Dataplane;
  readonly families: readonly Family[];
}

/** A mode of iptables, and what its commands have behind `iptables` or `ip6tables`. */
export interface IptablesCommands {
  readonly mode: IptablesMode;
  /** `-nft`, `-legacy`, or empty if the plain command is the one of the mode. */
  readonly suffix: string;
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

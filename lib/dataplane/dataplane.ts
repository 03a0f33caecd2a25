import type { Family } from '../cidr/address.ts';
import type { Entry, Policy, Verdict } from '../policy/policy.ts';
import type { VerdictRange, Verdicts } from '../policy/verdicts.ts';
import type { IptablesMode } from './options.ts';

/** Why a dataplane is used that a flag names, in words. */
export const BY_FLAG = 'set by --backend';

/** The beginning of every comment in the agent's rules. */
export const COMMENT_START = 'ip-masq-agent: ';

/**
 * Where the kernel keeps a policy: observe what is there, plan what would change, apply exactly that, observe again.
 * It reads and changes the agent's own rules only. All methods throw DataplaneError.
 */
export interface Dataplane {
  /** For logs: `iptables 1.8.9 (nft)`, `nftables`. */
  readonly name: string;
  /** Why this dataplane and mode are used, in words. */
  readonly reason: string;
  /** What to tell the operator: a flag asks for what this dataplane cannot do. */
  readonly warning?: string | undefined;
  /** The iptables commands that it runs; undefined for nftables. */
  readonly iptables: IptablesCommands | undefined;
  /** How many rules, or elements of sets, hold the policy in the kernel. */
  ruleCount(policy: Policy): number;
  /** Observes the agent's rules of one family. */
  observe(family: Family): Promise<Observed>;
  /**
   * Reads the counts of a policy's rules, or elements of sets, in the kernel. Those that say the same of one config file, and those
   * without an entry, begin again together.
   */
  count(policy: Policy): Promise<readonly EntryCount[]>;
  /** Whether events of nf_tables tell of changes: its rules are there, and netlink has not failed for good. */
  readonly hearsChanges: boolean;
}

/** The agent's rules of one family in the kernel, at one moment. */
export interface Observed {
  /** The generation of nf_tables before they were read; undefined if netlink does not tell it. */
  readonly generation: number | undefined;
  /**
   * The plan after which the kernel holds exactly this policy; undefined if it does already.
   *
   * @throws {DataplaneError} if another program has made a table in which this cannot be
   */
  plan(policy: Policy): Plan | undefined;
  /** The plan that removes all of the agent's rules; undefined if there are none. */
  planRemoval(): Plan | undefined;
  verdicts(): KernelVerdicts;
  /** The agent's rules, without counts: as `iptables -S` or `nft list table` prints them; undefined if there are none. */
  text(): string | undefined;
  /**
   * What cannot be deleted, and stays without effect, after the plan for this policy or, without one, after the removal: in words,
   * with the reason and what to do.
   */
  describeUndeletable(policy?: Policy): readonly string[];
}

/** Where rules of the agent can be: in a dataplane that is installed, for a family. */
export interface RuleLocation {
  readonly dataplane: Dataplane;
  readonly family: Family;
}

/** The location in words: `IPv4, iptables 1.8.9 (nft)`. Equal for the same one at another time. */
export function ruleLocationName({ dataplane, family }: RuleLocation): string {
  return `${family}, ${dataplane.name}`;
}

/** The agent's rules in one location. */
export interface RulesAtLocation extends RuleLocation {
  readonly rules: readonly string[];
}

/** A mode of iptables, and the names of its commands. */
interface IptablesCommands {
  readonly mode: IptablesMode;
  /** What follows `iptables` or `ip6tables`: `-nft`, `-legacy`, or nothing if the plain command has this mode. */
  readonly suffix: string;
}

/** A change that is not carried out yet. */
export interface Plan {
  readonly family: Family;
  /** How the kernel differs from the policy. */
  readonly found: readonly DifferenceKind[];
  readonly added: readonly PlannedRule[];
  readonly removed: readonly PlannedRule[];
  readonly kept: number;
  /** All of the agent's rules that the kernel holds, in order. */
  readonly current: readonly string[];
  /** All of the agent's rules that it will hold. A rule that stays has the same text in both lists. */
  readonly wanted: readonly PlannedRule[];
  /**
   * Carries it out, in one or more transactions. During and after each, packets meet the old rules or the new ones; the exception is a
   * table of nftables that must be made again.
   *
   * @throws {DataplaneError}
   */
  apply(): Promise<void>;
}

export type Draft = Omit<Plan, 'apply'>;

export interface PlannedRule {
  /** The rule as the tool prints it. */
  readonly text: string;
  /** The entry that asks for it; undefined for a rule that no entry of the policy asks for. */
  readonly entry: Entry | undefined;
}

export function unplanned(text: string): PlannedRule {
  return { text, entry: undefined };
}

/** How what the agent has applied can differ in the kernel. */
export const DIFFERENCES = {
  iptables: ['no readable chain', 'rules differ', 'jump missing', 'jump outdated', 'chain left over'],
  nftables: ['table missing', 'rules differ', 'elements differ'],
} as const;

/** How the kernel can differ, also if it is to hold no rules. */
export type DifferenceKind = (typeof DIFFERENCES)[keyof typeof DIFFERENCES][number] | 'table left over';

/** What the agent's rules in the kernel do with packets to every address; foreign rules may do more. */
export interface KernelVerdicts extends Verdicts {
  /** Without the chain, or without anything that leads packets to it, they are not masqueraded. */
  readonly state: 'applied' | 'no chain' | 'no jump';
}

/** What the agent's rules in the kernel do with packets to an address. */
export interface KernelVerdict extends Pick<VerdictRange, 'as' | 'kernelRule'> {
  /** If the rules were changed so that more than the destination decides, the verdict is unknown. */
  readonly state: KernelVerdicts['state'] | 'changed';
  readonly verdict: Verdict;
}

/** First packets of connections that one rule, or one element of a set, has counted since it was made. */
export interface EntryCount {
  /** Undefined for destinations that no entry holds, and, if not masqueraded, for packets from elsewhere. */
  readonly entry: Entry | undefined;
  /** The verdict of these packets. `invalid`: conntrack refuses them, and they would leave with the address of a pod. */
  readonly countedAs: Verdict | 'invalid';
  readonly packets: bigint;
}

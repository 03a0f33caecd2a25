import type { Family } from '../../cidr/address.ts';
import { ruleTarget } from './rule.ts';
import type { Tool } from './tool.ts';

/** What the kernel holds of ours in one family. */
export interface IptablesObservation {
  readonly family: Family;
  /** What stands behind `-A CHAIN` of each rule, in order; undefined where the chain is missing. */
  readonly rules: readonly string[] | undefined;
  /** What stands behind `-A POSTROUTING` of each rule that leads into our chain, in order. */
  readonly jumps: readonly string[];
}

/** Reads our chain and POSTROUTING, and no other: a node can hold 100,000 foreign rules. */
export async function observe(tool: Tool, chain: string): Promise<IptablesObservation> {
  const [rules, postrouting] = await Promise.all([tool.list(chain), tool.list('POSTROUTING')]);
  return {
    family: tool.family,
    rules,
    jumps: (postrouting ?? []).filter((spec) => ruleTarget(spec) === chain),
  };
}

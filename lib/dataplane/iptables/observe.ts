import type { Family } from '../../cidr/address.ts';
import { renderJump, renderQuotedJump } from './chain.ts';
import { ruleTarget } from './rule.ts';
import type { Tool } from './tool.ts';

/** The agent's rules of one family in the kernel. */
export interface IptablesObservation {
  readonly family: Family;
  /** The words after `-A CHAIN` of each rule, in order; undefined if the chain is missing or unreadable. */
  readonly rules: readonly string[] | undefined;
  /** The words after `-A POSTROUTING` of each rule that leads to the agent's chain, in order. */
  readonly jumps: readonly string[];
}

/** Reads the agent's chain and POSTROUTING only: a node can hold 100,000 foreign rules. */
export async function observe(tool: Tool, chain: string): Promise<IptablesObservation> {
  const [rules, postrouting] = await Promise.all([tool.list(chain), tool.list('POSTROUTING')]);
  const jumps = postrouting?.filter((spec) => ruleTarget(spec) === chain) ?? (await probeJumps(tool, chain));
  return { family: tool.family, rules, jumps };
}

/**
 * Finds jumps in a chain that iptables cannot list, because nft(8) has made a rule in it. Mostly, iptables can still
 * look for a given rule there. If it cannot, the reference count of the agent's chain shows whether there is a jump.
 */
async function probeJumps(tool: Tool, chain: string): Promise<readonly string[]> {
  const jump = renderJump(chain);
  for (const spec of [jump, renderQuotedJump(chain)]) {
    const held = await tool.holds('POSTROUTING', spec);
    if (held === 'unreadable') return (await tool.references(chain)) > 0 ? [jump] : [];
    if (held) return [spec];
  }
  return [];
}

import type { Family } from '../../cidr/address.ts';
import { renderJump, renderQuotedJump } from './chain.ts';
import { ruleTarget } from './rule.ts';
import type { Tool } from './tool.ts';

/** What the kernel holds of ours in one family. */
export interface IptablesObservation {
  readonly family: Family;
  /** What stands behind `-A CHAIN` of each rule, in order; undefined where the chain is missing or unreadable. */
  readonly rules: readonly string[] | undefined;
  /** What stands behind `-A POSTROUTING` of each rule that leads into our chain, in order. */
  readonly jumps: readonly string[];
}

/** Reads our chain and POSTROUTING, and no other: a node can hold 100,000 foreign rules. */
export async function observe(tool: Tool, chain: string): Promise<IptablesObservation> {
  const [rules, postrouting] = await Promise.all([tool.list(chain), tool.list('POSTROUTING')]);
  const jumps = postrouting?.filter((spec) => ruleTarget(spec) === chain) ?? (await probeJumps(tool, chain));
  return { family: tool.family, rules, jumps };
}

/**
 * One rule made by nft(8) in POSTROUTING is enough for iptables to list none. It mostly still finds a rule that it
 * is asked for; where not even that, our chain's own count of references tells whether there is a jump.
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

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
  /** Those of the jumps that can be deleted only by their numbers; undefined if there are none. */
  readonly odd?: OddJumps | undefined;
}

/** Jumps whose texts iptables-restore cannot read back. */
export interface OddJumps {
  /** Their numbers in POSTROUTING, counted from 1. */
  readonly numbers: readonly number[];
  /** How many rules POSTROUTING holds. */
  readonly rules: number;
}

/** Whether iptables-restore cannot read the text back: it ends a rule at a line break, and U+FFFD stands for any byte. */
export function isOdd(spec: string): boolean {
  return /[\n\ufffd]/.test(spec);
}

/** Reads the agent's chain and POSTROUTING only: a node can hold 100,000 foreign rules. */
export async function observe(tool: Tool, chain: string): Promise<IptablesObservation> {
  const [rules, postrouting] = await Promise.all([tool.list(chain), tool.list('POSTROUTING')]);
  const { family } = tool;
  if (postrouting === undefined) return { family, rules, jumps: await probeJumps(tool, chain) };
  const jumps = postrouting.filter((spec) => ruleTarget(spec) === chain);
  if (!jumps.some(isOdd)) return { family, rules, jumps };
  // If other chains lead to the agent's chain, the plan could not prove that it deletes the right rules.
  if ((await tool.references(chain)) !== jumps.length)
    return { family, rules, jumps: jumps.filter((spec) => !isOdd(spec)) };
  const numbers = postrouting.flatMap((spec, index) =>
    ruleTarget(spec) === chain && isOdd(spec) ? [index + 1] : [],
  );
  return { family, rules, jumps, odd: { numbers, rules: postrouting.length } };
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

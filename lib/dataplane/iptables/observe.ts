import type { Family } from '../../cidr/address.ts';
import { DataplaneError } from '../error.ts';
import { renderJump, renderQuotedJump, secondChain } from './chain.ts';
import { isWritable, type KernelRule, ruleTarget, sameRule } from './rule.ts';
import type { Tool } from './tool.ts';

/** The agent's rules of one family in the kernel, as iptables lists them. */
export interface IptablesObservation {
  readonly family: Family;
  /** The rules, in order; undefined if the first chain is missing, or one of both cannot be listed. */
  readonly rules: readonly KernelRule[] | undefined;
  /** The rules of the second chain if it is there, but the first one does not lead to it. */
  readonly unreached: readonly KernelRule[] | undefined;
  /** Which of the agent's chains are there, as far as they were looked for. */
  readonly chains: readonly string[];
  /** The rules in POSTROUTING that lead to the first chain, in order: the words after `-A POSTROUTING`. */
  readonly jumps: readonly string[];
  /** Whether others may lead there too, because iptables cannot list POSTROUTING: then only the agent's jump and v2's are looked for. */
  readonly mayHaveMoreJumps: boolean;
  /** Why rules cannot have the effect that they should have. */
  readonly obstacle?: DataplaneError | undefined;
}

/** What is to be read. */
interface Reading {
  readonly chain: string;
  /** Which of both chains may be there: those to look for. The second one is read in any case if the first one leads to it. */
  readonly candidates: readonly string[];
  /** The most rules of a chain that are read: one that holds more is not as the agent has written it. */
  readonly most: number | undefined;
}

/** Reads the agent's chains and POSTROUTING: a node can hold 100,000 foreign rules in other chains. */
export async function observe(
  tool: Tool,
  { chain, candidates, most }: Reading,
): Promise<IptablesObservation> {
  const second = secondChain(chain);
  const list = async (name: string): Promise<readonly KernelRule[] | undefined> =>
    (await tool.list(name, 'nat', most))?.map((spec) => ({ chain: name, spec }));
  // No rule can lead to a chain that is not there.
  const [first, postrouting] = candidates.includes(chain)
    ? await Promise.all([list(chain), tool.list('POSTROUTING')])
    : [undefined, []];
  const leadsOn = first?.some(({ spec }) => spec.includes(second) && ruleTarget(spec) === second) ?? false;
  const rest = leadsOn || candidates.includes(second) ? await list(second) : undefined;
  const jumps = postrouting ? await jumpsIn(tool, postrouting, chain) : await findJumps(tool, chain);
  return {
    family: tool.family,
    rules: leadsOn ? rest && first?.concat(rest) : first,
    unreached: leadsOn ? undefined : rest,
    // Of a chain with rules of nft(8), iptables says what it says of one that is not there.
    chains: [...(first || jumps.length > 0 ? [chain] : []), ...(leadsOn || rest ? [second] : [])],
    jumps,
    mayHaveMoreJumps: postrouting === undefined,
  };
}

/** The jumps in POSTROUTING. Those that cannot be deleted by the words that iptables lists stay: they only lead to the same chain. */
async function jumpsIn(
  tool: Tool,
  postrouting: readonly string[],
  chain: string,
): Promise<readonly string[]> {
  const jump = renderJump(chain);
  const found: string[] = [];
  for (const spec of postrouting) {
    if (!spec.includes(chain) || ruleTarget(spec) !== chain || !isWritable(spec)) continue;
    if (sameRule(spec, jump) || (await tool.finds('POSTROUTING', spec)) === true) found.push(spec);
  }
  return found;
}

/**
 * The jumps of this agent and of v2 in a chain that iptables cannot list: mostly, it can still look for a given rule.
 *
 * @throws {DataplaneError} if it cannot
 */
async function findJumps(tool: Tool, chain: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const spec of [renderJump(chain), renderQuotedJump(chain)]) {
    const answer = await tool.finds('POSTROUTING', spec);
    if (answer instanceof DataplaneError) throw answer;
    if (answer) found.push(spec);
  }
  return found;
}

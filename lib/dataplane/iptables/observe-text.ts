import { DataplaneError } from '../error.ts';
import { renderJump, renderQuotedJump, secondChain } from './chain.ts';
import { BUILT_IN_CHAINS } from './detect.ts';
import { type IptablesObservation, joinChains, ownCallers, unreadText } from './observe.ts';
import { isWritable, ruleTarget, sameRule } from './rule.ts';
import type { Tool } from './tool.ts';

interface TextOptions {
  /** Whether to look for foreign rules that lead to the agent's chains, because a change was refused. */
  readonly rewrite: boolean;
  /** The most rules of a chain of the agent that are read. */
  readonly most: number | undefined;
}

/** Reads the agent's chains and POSTROUTING from what iptables lists: a node can hold 100,000 foreign rules in other chains. */
export async function observe(
  tool: Tool,
  chain: string,
  { rewrite, most }: TextOptions,
): Promise<IptablesObservation> {
  const name = secondChain(chain);
  const [first, listed, postrouting] = await Promise.all([
    tool.listOwn(chain, most),
    tool.listOwn(name, most),
    tool.list('POSTROUTING'),
  ]);
  const specs = (list: Awaited<ReturnType<Tool['listOwn']>>) =>
    list === 'too many' ? [{ spec: unreadText(`more than ${most}`) }] : list?.map((spec) => ({ spec }));
  const chains = joinChains(chain, specs(first), specs(listed));
  const jumps = postrouting ? jumpsIn(postrouting, chain) : await findJump(tool, chain);
  const unread = [...(first === 'too many' ? [chain] : []), ...(listed === 'too many' ? [name] : [])];
  const found = { family: tool.family, ...chains, unread, jumps };
  return { ...found, callers: await findCallers(tool, chain, found, rewrite) };
}

function jumpsIn(postrouting: readonly string[], chain: string): readonly string[] {
  return postrouting.filter((spec) => spec.includes(chain) && ruleTarget(spec) === chain && isWritable(spec));
}

/**
 * The jump in a chain that iptables cannot list: mostly, it can still look for a given rule.
 *
 * @throws {DataplaneError} if it cannot
 */
async function findJump(tool: Tool, chain: string): Promise<readonly string[]> {
  for (const spec of [renderJump(chain), renderQuotedJump(chain)]) {
    const isThere = await tool.holds('POSTROUTING', spec);
    if (isThere === true) return [spec];
    if (isThere === 'unreadable')
      throw new DataplaneError(
        'refused',
        'iptables cannot read POSTROUTING of nat, because nft(8) has made a rule in it',
        'remove --netlink=off, because netlink can read it; or delete that rule: nft -a list table ip nat',
      );
  }
  return [];
}

/** Finds the chains that other rules lead to, if that matters for the plan. */
async function findCallers(
  tool: Tool,
  chain: string,
  found: Omit<IptablesObservation, 'callers'>,
  rewrite: boolean,
): Promise<ReadonlyMap<string, string>> {
  const { jumps } = found;
  // Mostly there is the agent's jump, which all packets take: no other rule that leads to the chain matters.
  const isEntered = jumps.some((spec) => sameRule(spec, renderJump(chain)));
  const callers = new Map<string, string>();
  for (const [name, count, matters] of [
    [chain, jumps.length, rewrite || !isEntered],
    [secondChain(chain), 0, found.hasSecond && (rewrite || found.leftover !== undefined)],
  ] as const) {
    if (matters && (await tool.references(name)) > count + ownCallers(name, found))
      callers.set(name, await foreignCaller(tool, name, jumps));
  }
  return callers;
}

/** A foreign rule that leads to the chain, or words for one that is not in a built-in chain. */
async function foreignCaller(tool: Tool, name: string, jumps: readonly string[]): Promise<string> {
  for (const caller of BUILT_IN_CHAINS) {
    const specs = await tool.list(caller);
    const found = specs?.find((spec) => ruleTarget(spec) === name && !jumps.includes(spec));
    if (found !== undefined) return `-A ${caller} ${found}`;
  }
  return 'a rule in another chain';
}

import { DataplaneError } from '../error.ts';
import { renderJump, renderQuotedJump, secondChain } from './chain.ts';
import { BUILT_IN_CHAINS } from './detect.ts';
import { type IptablesObservation, type Jump, joinChains, ownCallers, unreadText } from './observe.ts';
import { isWritable, ruleTarget, sameRule } from './rule.ts';
import type { Tool } from './tool.ts';

interface TextOptions {
  /** Whether there can be rules of nft(8), which iptables cannot list. */
  readonly mayHide: boolean;
  /** Whether to look for foreign rules that lead to the agent's chains, because a change was refused. */
  readonly rewrite: boolean;
  /** The most rules of a chain of the agent that are read. */
  readonly most: number | undefined;
}

/** Reads the agent's chains and POSTROUTING from what iptables lists: a node can hold 100,000 foreign rules in other chains. */
export async function observe(tool: Tool, chain: string, options: TextOptions): Promise<IptablesObservation> {
  const { mayHide, most } = options;
  const name = secondChain(chain);
  const [first, listed, postrouting] = await Promise.all([
    tool.listOwn(chain, most),
    tool.listOwn(name, most),
    tool.list('POSTROUTING'),
  ]);
  const specs = (list: Awaited<ReturnType<Tool['listOwn']>>) =>
    list === 'too many' ? [{ spec: unreadText(`more than ${most}`) }] : list?.map((spec) => ({ spec }));
  let chains = joinChains(chain, specs(first), specs(listed));
  // The tool says of a chain with rules of nft(8) what it says of one that is not there, but finds it as a target.
  if (mayHide && !chains.hasSecond && (await tool.exists(name)))
    chains = joinChains(chain, specs(first), [{ spec: '(rules that iptables cannot list)' }]);
  const jumps = postrouting ? jumpsIn(postrouting, chain) : await findJump(tool, chain);
  const unread = [...(first === 'too many' ? [chain] : []), ...(listed === 'too many' ? [name] : [])];
  const found = { family: tool.family, ...chains, unread, jumps, postrouting: postrouting?.length ?? 0 };
  const callers = await findCallers(tool, chain, found, options);
  // If other rules lead to the chain, the plan could not prove that it deletes the right ones by their numbers.
  const deletable = callers.has(chain) ? jumps.filter(({ number }) => number === undefined) : jumps;
  return { ...found, jumps: deletable, callers };
}

function jumpsIn(postrouting: readonly string[], chain: string): readonly Jump[] {
  return postrouting.flatMap((spec, index): readonly Jump[] => {
    if (!spec.includes(chain) || ruleTarget(spec) !== chain) return [];
    return [isWritable(spec) ? { spec } : { spec, number: index + 1 }];
  });
}

/**
 * The jump in a chain that iptables cannot list: mostly, it can still look for a given rule.
 *
 * @throws {DataplaneError} if it cannot
 */
async function findJump(tool: Tool, chain: string): Promise<readonly Jump[]> {
  for (const spec of [renderJump(chain), renderQuotedJump(chain)]) {
    const isThere = await tool.holds('POSTROUTING', spec);
    if (isThere === true) return [{ spec }];
    if (isThere === 'unreadable')
      throw new DataplaneError(
        'refused',
        'iptables cannot read POSTROUTING of nat, because nft(8) has made a rule in it',
        'nft list chain ip nat POSTROUTING shows it: let whoever wrote it write it with iptables',
      );
  }
  return [];
}

/** Finds the chains that other rules lead to, if that matters for the plan. */
async function findCallers(
  tool: Tool,
  chain: string,
  found: Omit<IptablesObservation, 'callers'>,
  { mayHide, rewrite }: TextOptions,
): Promise<ReadonlyMap<string, string>> {
  const { jumps } = found;
  // Mostly there is the agent's jump, which all packets take: no other rule that leads to the chain matters.
  const isEntered =
    jumps.every(({ number }) => number === undefined) &&
    jumps.some(({ spec }) => sameRule(spec, renderJump(chain)));
  const callers = new Map<string, string>();
  for (const [name, count, matters] of [
    [chain, jumps.length, rewrite || !isEntered],
    [secondChain(chain), 0, found.hasSecond && (rewrite || found.leftover !== undefined)],
  ] as const) {
    // Of a chain that iptables cannot list it does not tell how many rules lead to it.
    const isHidden = mayHide && name === chain && found.rules === undefined;
    const countHidden = async () => (isHidden && (await tool.exists(name)) ? Number.POSITIVE_INFINITY : 0);
    const references = matters ? ((await tool.references(name)) ?? (await countHidden())) : 0;
    if (references > count + ownCallers(name, found))
      callers.set(name, await foreignCaller(tool, name, chain));
  }
  return callers;
}

/** A foreign rule that leads to the chain, or words for one that is not in a built-in chain. */
async function foreignCaller(tool: Tool, name: string, chain: string): Promise<string> {
  for (const caller of BUILT_IN_CHAINS) {
    const specs = name === chain && caller === 'POSTROUTING' ? [] : await tool.list(caller);
    const found = specs?.find((spec) => ruleTarget(spec) === name);
    if (found !== undefined) return `-A ${caller} ${found}`;
  }
  return 'a rule in another chain';
}

import type { Family } from '../../cidr/address.ts';
import type { ObservationDepth } from '../dataplane.ts';
import { type Netlink, noAnswer, type Requests } from '../netlink.ts';
import { renderJump, renderQuotedJump, secondChain } from './chain.ts';
import { BUILT_IN_CHAINS } from './detect.ts';
import { type KernelRule, ruleTarget, sameRule } from './rule.ts';
import type { Tool } from './tool.ts';

/** The agent's rules of one family in the kernel. */
export interface IptablesObservation {
  readonly family: Family;
  /** The rules, in order; undefined if the first chain is missing, or one of both is unreadable. */
  readonly rules: readonly KernelRule[] | undefined;
  /**
   * The rules of the second chain if it is there, but the first one does not lead to it; `none` if it is not there.
   * Undefined if it is in use, or if it was not read.
   */
  readonly leftover?: readonly KernelRule[] | 'none' | undefined;
  /** Chains of the agent that cannot be deleted, as far as they were asked for, and a foreign rule that leads to each. */
  readonly undeletable?: ReadonlyMap<string, string> | undefined;
  /** The words after `-A POSTROUTING` of each rule that leads to the agent's chain, in order. */
  readonly jumps: readonly string[];
  /** Rules that lead to the chain and are not read: besides the jumps, or `instead` of one that is only assumed. */
  readonly unseen?: 'besides' | 'instead' | undefined;
  /** Those of the jumps that can be deleted only by their numbers; undefined if there are none. */
  readonly odd?: OddJumps | undefined;
}

/** Jumps whose texts iptables-restore cannot read back. */
interface OddJumps {
  /** Their numbers in POSTROUTING, counted from 1. */
  readonly numbers: readonly number[];
  readonly rules: number;
}

/** Whether iptables-restore cannot read the text back: it ends a rule at a line break, and U+FFFD stands for any byte. */
export function isOdd(spec: string): boolean {
  return /[\n\ufffd]/.test(spec);
}

interface ChainsRead<Rule> {
  /** Undefined if the first chain is missing, or one of both is unreadable. */
  readonly rules: readonly (Rule & KernelRule)[] | undefined;
  readonly leadsOn: boolean;
}

/**
 * Reads the first chain, and the second one if the first one leads to it.
 *
 * @param list the rules of a chain; undefined if it is missing or unreadable
 */
export async function readChains<Rule extends { readonly spec: string }>(
  chain: string,
  list: (chain: string) => Promise<readonly Rule[] | undefined>,
): Promise<ChainsRead<Rule>> {
  const first = await list(chain);
  const name = secondChain(chain);
  const leadsOn = first?.some(({ spec }) => spec.includes(name) && ruleTarget(spec) === name) ?? false;
  const second = leadsOn ? await list(name) : [];
  if (first === undefined || second === undefined) return { rules: undefined, leadsOn };
  const rules = [
    ...first.map((rule) => ({ ...rule, chain })),
    ...second.map((rule) => ({ ...rule, chain: name })),
  ];
  return { rules, leadsOn };
}

/** How an observation reads chains that are rare: a second one that is left over, and foreign ones that lead to the agent's. */
interface RareReading {
  readonly netlink: Netlink | undefined;
  readonly depth: ObservationDepth;
}

/** Reads the agent's chains and POSTROUTING only: a node can hold 100,000 foreign rules. */
export async function observe(tool: Tool, chain: string, rare: RareReading): Promise<IptablesObservation> {
  const [{ rules, leadsOn }, postrouting] = await Promise.all([
    readChains(chain, async (name) => (await tool.list(name))?.map((spec) => ({ spec }))),
    tool.list('POSTROUTING'),
  ]);
  const entered = await observeJumps(tool, chain, rules, postrouting);
  const leftover = leadsOn ? undefined : await readLeftover(tool, secondChain(chain), rare);
  const found = { family: tool.family, rules, leftover, ...entered };
  return { ...found, undeletable: await findUndeletable(tool, chain, found, rare) };
}

/** Reads the second chain, to which the first one does not lead. */
async function readLeftover(
  tool: Tool,
  chain: string,
  { netlink, depth }: RareReading,
): Promise<IptablesObservation['leftover']> {
  const known = await netlink?.has({ family: tool.family, table: 'nat', chain });
  // In legacy mode the tool would read the whole table.
  if (known === undefined && depth === 'usual') return undefined;
  // The tool says of a chain with rules of nft(8) what it says of one that is not there, but finds it as a target.
  if (!(known ?? (await tool.exists(chain)))) return 'none';
  const specs = (await tool.list(chain)) ?? ['(rules that iptables cannot list)'];
  return specs.map((spec) => ({ chain, spec }));
}

/** Finds the chains that foreign rules lead to, if the agent may have to delete them. */
async function findUndeletable(
  tool: Tool,
  chain: string,
  { rules = [], leftover, jumps, unseen }: IptablesObservation,
  { netlink, depth }: RareReading,
): Promise<ReadonlyMap<string, string>> {
  const second = secondChain(chain);
  const wasRefused = depth === 'everything';
  const isEmptied = rules.length + jumps.length === 0 && unseen !== undefined;
  const isLeft = typeof leftover === 'object';
  const targets = [...rules, ...(isLeft ? leftover : [])].map(({ spec }) => ruleTarget(spec));
  // Their own rules go with the chains, also one that leads to its own chain.
  const count = (name: string) => targets.filter((target) => target === name).length;
  const own = new Map([
    ...(wasRefused || isEmptied ? [[chain, jumps.length + count(chain)] as const] : []),
    ...((wasRefused && leftover !== 'none') || isLeft ? [[second, count(second)] as const] : []),
  ]);
  const undeletable = new Map<string, string>();
  for (const [name, count] of own) {
    const isOwn = (caller: string, spec: string) =>
      caller === chain || caller === second || (caller === 'POSTROUTING' && jumps.includes(spec));
    if (((await tool.references(name)) ?? 0) > count)
      undeletable.set(name, await foreignRule(tool, netlink, name, isOwn));
  }
  return undeletable;
}

/** A chain that holds more is not listed: a foreign chain can hold 100,000 rules, all of which the tool reads. */
const MOST_RULES = 1_000;

/**
 * A foreign rule that leads to the chain, as `iptables -S` prints it, or words for one that is not found. Without
 * netlink only the built-in chains are searched.
 *
 * @param isOwn whether a rule in a chain is the agent's
 */
async function foreignRule(
  tool: Tool,
  netlink: Netlink | undefined,
  chain: string,
  isOwn: (caller: string, spec: string) => boolean,
): Promise<string> {
  const sizes = await netlink?.use((requests) => sizesOfCallers(requests, tool, chain)).catch(noAnswer);
  let words = 'a rule in another chain';
  for (const caller of sizes?.keys() ?? BUILT_IN_CHAINS) {
    const isSmall = (sizes?.get(caller) ?? 0) <= MOST_RULES;
    const specs = isSmall ? await tool.list(caller) : undefined;
    const found = specs?.find((spec) => ruleTarget(spec) === chain && !isOwn(caller, spec));
    if (found !== undefined) return `-A ${caller} ${found}`;
    if (specs === undefined && sizes !== undefined) words = `a rule in ${caller}`;
  }
  return words;
}

/** The chains whose rules lead to a chain, and how many rules each holds. */
async function sizesOfCallers(
  requests: Requests,
  { family }: Tool,
  to: string,
): Promise<ReadonlyMap<string, number>> {
  const nat = { family, table: 'nat' };
  const sizes = new Map<string, number>();
  for (const { chain } of await requests.rules(nat, to))
    sizes.set(chain, sizes.get(chain) ?? (await requests.chain({ ...nat, chain }))?.use ?? 0);
  return sizes;
}

async function observeJumps(
  tool: Tool,
  chain: string,
  rules: IptablesObservation['rules'],
  postrouting: readonly string[] | undefined,
): Promise<Pick<IptablesObservation, 'jumps' | 'unseen' | 'odd'>> {
  if (postrouting === undefined) return await probeJumps(tool, chain, rules);
  const jumps = postrouting.filter((spec) => ruleTarget(spec) === chain);
  const hasOdd = jumps.some(isOdd);
  // Mostly there is the agent's jump, which all packets take: no other rule that leads to the chain matters.
  if (!hasOdd && jumps.some((spec) => sameRule(spec, renderJump(chain)))) return { jumps };
  const unseen = (await countReferences(tool, chain, rules)) === jumps.length ? undefined : 'besides';
  if (!hasOdd) return { jumps, unseen };
  // If other chains lead to the agent's chain, the plan could not prove that it deletes the right rules.
  if (unseen) return { jumps: jumps.filter((spec) => !isOdd(spec)), unseen };
  const numbers = postrouting.flatMap((spec, index) =>
    ruleTarget(spec) === chain && isOdd(spec) ? [index + 1] : [],
  );
  return { jumps, odd: { numbers, rules: postrouting.length } };
}

/**
 * Finds jumps in a chain that iptables cannot list, because nft(8) has made a rule in it. Mostly, iptables can still
 * look for a given rule there. If it cannot, the reference count of the agent's chain shows whether there is a jump.
 */
async function probeJumps(
  tool: Tool,
  chain: string,
  rules: IptablesObservation['rules'],
): Promise<Pick<IptablesObservation, 'jumps' | 'unseen'>> {
  const jump = renderJump(chain);
  let unreadable = false;
  for (const spec of [jump, renderQuotedJump(chain)]) {
    const isThere = await tool.holds('POSTROUTING', spec);
    if (isThere === true) return { jumps: [spec] };
    unreadable ||= isThere === 'unreadable';
  }
  const references = await countReferences(tool, chain, rules);
  if (references === 0) return { jumps: [] };
  return unreadable && references !== undefined
    ? { jumps: [jump], unseen: 'instead' }
    : { jumps: [], unseen: 'besides' };
}

/** How many rules lead to the chain; undefined if it cannot be read. */
async function countReferences(
  tool: Tool,
  chain: string,
  rules: IptablesObservation['rules'],
): Promise<number | undefined> {
  if (rules !== undefined) return (await tool.references(chain)) ?? 0;
  return (await tool.exists(chain)) ? undefined : 0;
}

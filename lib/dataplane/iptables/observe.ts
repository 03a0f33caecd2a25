import type { Family } from '../../cidr/address.ts';
import { NFPROTO } from '../../netlink/messages.ts';
import type { ChainReply, RuleReply, TableReply } from '../../netlink/replies.ts';
import { DataplaneError } from '../error.ts';
import type { Requests } from '../netlink.ts';
import { secondChain } from './chain.ts';
import { iptablesRule, type NftRuleText } from './nft-rule.ts';
import { isWritable, type KernelRule, ruleTarget } from './rule.ts';

/** The agent's rules of one family in the kernel, read over netlink, or from what iptables lists. */
export interface IptablesObservation {
  readonly family: Family;
  /** The rules, in order; undefined if the first chain is missing, or iptables cannot list one of both. */
  readonly rules: readonly ObservedRule[] | undefined;
  /** The rules of the second chain if it is there, but the first one does not lead to it. */
  readonly leftover?: readonly ObservedRule[] | undefined;
  /** The agent's chains that hold more rules than are read; words stand for their rules. */
  readonly unread?: readonly string[];
  /** Whether the second chain is there. */
  readonly hasSecond: boolean;
  /** The rules in POSTROUTING that lead to the agent's chain, in order. */
  readonly jumps: readonly Jump[];
  /** How many rules POSTROUTING holds; 0 if no jump has a number. */
  readonly postrouting: number;
  /**
   * The agent's chains that other rules lead to, so that they cannot be deleted; and such a rule, or words for one that cannot be
   * read. Without netlink this is asked for only if a chain is to be deleted, or the jump is not as it should be.
   */
  readonly callers: ReadonlyMap<string, string>;
  /** Why rules cannot have the effect that they should have. */
  readonly obstacle?: DataplaneError | undefined;
}

export interface ObservedRule extends KernelRule {
  /** Undefined if it was not read, or the rule does not count. */
  readonly packets?: bigint | undefined;
}

export interface Jump {
  /** The words after `-A POSTROUTING`. */
  readonly spec: string;
  /** Its number in POSTROUTING, counted from 1, if it can be deleted only so: iptables-restore cannot read the words back. */
  readonly number?: number | undefined;
}

/** What is observed if the agent has no rules. */
export const NO_RULES = {
  rules: undefined,
  hasSecond: false,
  jumps: [],
  postrouting: 0,
  callers: new Map<string, string>(),
} as const;

/**
 * What is in both chains.
 *
 * @param first the rules of the first chain; undefined if it is missing, or cannot be listed
 * @param second the same of the second chain
 */
export function joinChains<Listed extends { readonly spec: string }>(
  chain: string,
  first: readonly Listed[] | undefined,
  second: readonly Listed[] | undefined,
) {
  const name = secondChain(chain);
  const rest = second?.map((rule) => ({ ...rule, chain: name }));
  const rules = first?.map((rule) => ({ ...rule, chain }));
  const leadsOn = leading(rules, name).length > 0;
  return {
    rules: leadsOn ? rest && rules?.concat(rest) : rules,
    leftover: leadsOn ? undefined : rest,
    hasSecond: leadsOn || rest !== undefined,
  };
}

function leading(rules: readonly KernelRule[] = [], chain: string): readonly KernelRule[] {
  return rules.filter(({ spec }) => spec.includes(chain) && ruleTarget(spec) === chain);
}

/** How many of the agent's own rules lead to one of its chains. */
export function ownCallers(
  name: string,
  { rules = [], leftover = [] }: Pick<IptablesObservation, 'rules' | 'leftover'>,
): number {
  return leading([...rules, ...leftover], name).length;
}

/**
 * Reads the chains over netlink: iptables-nft keeps them in nf_tables.
 *
 * @param most the most rules of a chain that are read: one that holds more is not as the agent has written it
 * @throws {NetlinkError}
 */
export async function readChains(
  requests: Requests,
  family: Family,
  chain: string,
  most = Number.MAX_SAFE_INTEGER,
): Promise<IptablesObservation> {
  const nat = { family, table: 'nat' };
  const postrouting = { ...nat, chain: 'POSTROUTING' };
  const table = await requests.table(nat);
  if (table === undefined) return { ...NO_RULES, family };
  const unread: string[] = [];
  const list = async (name: string): Promise<ListedChain | undefined> => {
    const found = await requests.chain({ ...nat, chain: name });
    if (found === undefined) return undefined;
    const rules: Omit<ObservedRule, 'chain'>[] = [];
    let count = 0;
    await requests.eachRule({ ...nat, chain: name }, (reply) => {
      count += 1;
      if (count <= most) rules.push({ spec: iptablesRule(family, reply).spec, packets: reply.packets });
    });
    const references = found.use - count;
    if (count <= most) return { references, rules };
    unread.push(name);
    return { references, rules: [{ spec: unreadText(count) }] };
  };
  const [first, second] = [await list(chain), await list(secondChain(chain))];
  const jumps = (await requests.rules(postrouting, chain)).map((reply) => {
    return { ...iptablesRule(family, reply), handle: reply.handle };
  });
  const chains = joinChains(chain, first?.rules, second?.rules);
  const callers = new Map<string, string>();
  for (const [name, listed, count] of [
    [chain, first, jumps.length],
    [secondChain(chain), second, 0],
  ] as const) {
    const references = listed?.references ?? 0;
    if (references > count + ownCallers(name, chains))
      callers.set(name, await foreignCaller(requests, family, chain, name));
  }
  return {
    family,
    ...chains,
    unread,
    ...(await numberJumps(jumps, callers.has(chain), () => requests.rules(postrouting))),
    callers,
    obstacle: obstacleIn(family, table, await requests.chain(postrouting)),
  };
}

/** Stands for too many rules. */
export function unreadText(count: number | string): string {
  return `(${count} rules, which are not read)`;
}

interface ListedChain {
  /** How many rules lead to it. */
  readonly references: number;
  readonly rules: readonly Omit<ObservedRule, 'chain'>[];
}

/**
 * The jumps with numbers where they need one.
 *
 * @param hasCallers whether other rules lead to the chain: then the plan could not prove that it deletes the right rules
 */
async function numberJumps(
  jumps: readonly (NftRuleText & { readonly handle: number })[],
  hasCallers: boolean,
  list: () => Promise<readonly RuleReply[]>,
): Promise<Pick<IptablesObservation, 'jumps' | 'postrouting'>> {
  const isClear = ({ spec, isExact }: NftRuleText) => isExact && isWritable(spec);
  const deletable = hasCallers ? jumps.filter(isClear) : jumps;
  const handles = deletable.every(isClear) ? [] : (await list()).map(({ handle }) => handle);
  return {
    jumps: deletable.map((jump) => {
      // A rule that is gone by now has number 0, with which the transaction fails.
      const number = isClear(jump) ? undefined : handles.indexOf(jump.handle) + 1;
      return { spec: jump.spec, number };
    }),
    postrouting: handles.length,
  };
}

/** A foreign rule that leads to one of the agent's chains. */
async function foreignCaller(
  requests: Requests,
  family: Family,
  chain: string,
  name: string,
): Promise<string> {
  const callers = await requests.rules({ family, table: 'nat' }, name);
  const own = [chain, secondChain(chain), ...(name === chain ? ['POSTROUTING'] : [])];
  const found = callers.find((reply) => !own.includes(reply.chain));
  if (found === undefined) return 'a rule that the kernel does not list, or an element of a map';
  return `-A ${found.chain} ${iptablesRule(family, found).spec}`;
}

/** NFT_TABLE_F_DORMANT, NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC and NF_DROP. */
const [DORMANT, POSTROUTING_HOOK, SOURCE_NAT, DROP] = [1, 4, 100, 0];

/** What another program has made of `nat` so that rules of iptables do not have their effect; undefined if nothing. */
export async function natObstacle(
  requests: Pick<Requests, 'table' | 'chain'>,
  family: Family,
): Promise<DataplaneError | undefined> {
  const table = await requests.table({ family, table: 'nat' });
  return (
    table && obstacleIn(family, table, await requests.chain({ family, table: 'nat', chain: 'POSTROUTING' }))
  );
}

/** Another program has made table or chain so that rules do not have their effect. iptables shows the policy alone. */
function obstacleIn(
  family: Family,
  { flags, owner }: TableReply,
  chain: ChainReply | undefined,
): DataplaneError | undefined {
  const table = `${NFPROTO[family].word} nat`;
  const { type, number, priority, policy } = chain?.hook ?? {};
  const isInPlace = type === 'nat' && number === POSTROUTING_HOOK && priority === SOURCE_NAT;
  const other = '; or use --backend=nftables';
  const obstacles: readonly (readonly [isThere: boolean, message: string, remedy: string])[] = [
    [
      (flags & DORMANT) !== 0,
      `the table ${table} is dormant: no rule in it has an effect`,
      `find out which program has set this flag, and let it wake the table up${other}`,
    ],
    [
      owner !== undefined,
      `another process owns the table ${table} (netlink port ${owner}, mostly the process id): only that process may change it`,
      `end that process: the table goes with it${other}`,
    ],
    [
      chain !== undefined && !isInPlace,
      `the chain POSTROUTING in the table ${table} is not the one of iptables: ${type === undefined ? 'it has no hook' : `type ${type}, hook ${number}, priority ${priority}`}`,
      `find out which program has made it, and let it take another name${other}`,
    ],
    [
      policy === DROP,
      `the policy of the chain POSTROUTING in the table ${table} is drop: what no rule masquerades is dropped`,
      `find out which program has set it, and let it set the policy to accept`,
    ],
  ];
  const found = obstacles.find(([isThere]) => isThere);
  return found && new DataplaneError('unusable', found[1], found[2]);
}

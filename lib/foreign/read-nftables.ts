import type { Family } from '../cidr/address.ts';
import { ipsetsIn } from '../dataplane/iptables/extensions.ts';
import { setNames } from '../dataplane/iptables/list-chain.ts';
import { iptablesRule } from '../dataplane/iptables/nft-rule.ts';
import { parseIptablesRule } from '../dataplane/iptables/parse-rule.ts';
import type { Netlink } from '../dataplane/netlink.ts';
import { decode } from '../dataplane/nftables/decode.ts';
import type { Rule } from '../dataplane/rule.ts';
import type { ChainName, SetName } from '../netlink/change.ts';
import { NetlinkError } from '../netlink/error.ts';
import { targetOf } from '../netlink/expressions.ts';
import { NFT_SET, type TableFamily } from '../netlink/messages.ts';
import type { RuleReply } from '../netlink/replies.ts';
import { addTarget, type ReadChain, type ReadRules } from './base-chain.ts';
import { type Budget, MOST_ELEMENTS } from './budget.ts';
import { deletion, type ReadSet, readNftRule, type SetToRead, setsIn } from './nft-rule.ts';

/**
 * Makes a reader of the chains behind a base chain, as packets of one family meet them. It reads each set once.
 *
 * @param ownChain the agent's own chain in the tables of iptables, `ip nat` and `ip6 nat`
 */
export function createNftReader(
  netlink: Netlink,
  { family: tableFamily, table, chain: base }: ChainName<TableFamily>,
  family: Family,
  ownChain: string,
  budget: Budget,
): ReadRules {
  const name = { family: tableFamily, table };
  const isOfIptables = TABLES_OF_IPTABLES.includes(table) && tableFamily === family;
  const sets = new Map<string, ReadSet>();
  const names = new Map<number, string>();
  /** Undefined for a rule that iptables has no words for, or that is in a chain that only nft(8) makes. */
  const fromIptables = (reply: RuleReply, chain: string) => {
    const isExtended = reply.expressions.some(({ name }) => name === 'match' || name === 'target');
    const { spec, isExact } = iptablesRule(family, reply, names);
    const isOwn = isExtended || (isExact && BASES_OF_IPTABLES.includes(base));
    return isOwn ? parseIptablesRule(family, chain, spec, ownChain) : undefined;
  };
  const rulesOf = (reply: RuleReply, chain: string): readonly Rule[] => {
    const place = { ...name, chain };
    const own = isOfIptables ? fromIptables(reply, chain) : undefined;
    if (own !== undefined) return [{ ...own, ...deletion(place, reply) }];
    const rules = readNftRule({ family, place, sets }, reply, decode(family, reply.expressions));
    return isOfIptables ? rules.map((rule) => markOwn(rule, ownChain)) : rules;
  };
  const eachReply = async (chain: string, spent: Budget, visit: (reply: RuleReply) => void) => {
    const visitWithin = (reply: RuleReply) => {
      spent.check();
      visit(reply);
    };
    const read = () =>
      netlink.use((requests) => requests.eachRule({ ...name, chain }, visitWithin, spent.limits.chain));
    await spent.work(read);
  };
  const setOf = async (wanted: SetToRead): Promise<ReadSet | undefined> => {
    const before = sets.get(wanted.name);
    if (before !== undefined) return before;
    const set = await readSet(netlink, { ...name, set: wanted.name }, wanted);
    budget.keep(set?.elements.ranges.length ?? 0);
    if (set !== undefined) sets.set(wanted.name, set);
    return set;
  };
  const readChain = async (chain: string): Promise<ReadChain> => {
    const targets = new Map<string, number>();
    const wanted = new Map<string, SetToRead & { readonly rules: number }>();
    const ipsets = new Set<number>();
    await eachReply(chain, budget, ({ expressions }) => {
      const target = targetOf(expressions);
      if (target !== undefined) addTarget(targets, target);
      if (isOfIptables) for (const index of ipsetsIn(expressions)) ipsets.add(index);
      if (!expressions.some((one) => one.name === 'lookup')) return;
      for (const set of setsIn(decode(family, expressions)))
        wanted.set(set.name, { ...set, rules: (wanted.get(set.name)?.rules ?? 0) + 1 });
    });
    for (const [index, found] of await setNames(netlink, ipsets)) names.set(index, found);
    for (const { rules, ...one } of wanted.values())
      for (const target of targetsIn(await setOf(one))) addTarget(targets, target, rules);
    budget.keep(1 + targets.size);
    const toOwn = isOfIptables ? (targets.get(ownChain) ?? 0) : 0;
    if (isOfIptables) targets.delete(ownChain);
    const each: ReadChain['each'] = (visit, spent) =>
      eachReply(chain, spent, (reply) => rulesOf(reply, chain).forEach(visit));
    return { targets, toOwn, each };
  };
  return async (chain) => {
    try {
      return await readChain(chain);
    } catch (error) {
      // What is not read of one chain must not hide the others.
      if (!(error instanceof NetlinkError)) throw error;
      return `chain ${chain}: ${error.message}`;
    }
  };
}

/** Where iptables-nft keeps its tables, and its chains at the two hooks (nft_xt_builtin_tables in iptables/nft.c). */
const TABLES_OF_IPTABLES = ['raw', 'mangle', 'nat', 'filter', 'security'];
const BASES_OF_IPTABLES = ['PREROUTING', 'POSTROUTING'];

async function readSet(
  netlink: Netlink,
  name: SetName<TableFamily>,
  wanted: SetToRead,
): Promise<ReadSet | undefined> {
  return await netlink.use(async (requests) => {
    const set = await requests.set(name);
    if (set === undefined) return undefined;
    const { flags, keyBytes } = set;
    // Keys of several parts have ranges of their own kind.
    const isInterval = (flags & NFT_SET.interval) !== 0 && (flags & NFT_SET.concat) === 0;
    const elements = await requests.elements(name, { isInterval, keyBytes, most: MOST_ELEMENTS });
    return elements && { ...wanted, keyBytes, elements };
  });
}

/** The chains that the elements of a verdict map lead to. */
function targetsIn(set: ReadSet | undefined): readonly string[] {
  const { ranges = [], otherVerdict } = set?.elements ?? {};
  return [...ranges.map(({ verdict }) => verdict), otherVerdict].flatMap((verdict) => verdict?.chain ?? []);
}

function markOwn(rule: Rule, ownChain: string): Rule {
  const leads = 'chain' in rule.outcome && rule.outcome.chain === ownChain;
  return leads ? { ...rule, outcome: { kind: 'own' } } : rule;
}

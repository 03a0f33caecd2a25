import type { Family } from '../cidr/address.ts';
import type { SetNames } from '../dataplane/iptables/extensions.ts';
import { MOST_OF_CHAIN, setNames } from '../dataplane/iptables/list-chain.ts';
import { iptablesRule } from '../dataplane/iptables/nft-rule.ts';
import { parseIptablesRule } from '../dataplane/iptables/parse-rule.ts';
import type { Netlink } from '../dataplane/netlink.ts';
import { decode } from '../dataplane/nftables/decode.ts';
import type { Statement } from '../dataplane/nftables/statement.ts';
import type { Rule } from '../dataplane/rule.ts';
import type { ChainName, SetName } from '../netlink/change.ts';
import { NetlinkError } from '../netlink/error.ts';
import { NFT_SET, type TableFamily } from '../netlink/messages.ts';
import type { RuleReply } from '../netlink/replies.ts';
import type { ReadRules } from './base-chain.ts';
import { type Budget, MOST_ELEMENTS } from './budget.ts';
import { deletion, type NftContext, type ReadSet, readNftRule, type SetToRead, setsIn } from './nft-rule.ts';

/** A rule, which is in iptables' own words if it came from there. */
interface Decoded {
  readonly reply: RuleReply;
  readonly statements: readonly Statement[];
  readonly own?: Rule | undefined;
}

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
  /** Undefined for a rule that iptables has no words for, or that is in a chain that only nft(8) makes. */
  const fromIptables = (reply: RuleReply, chain: string, names: SetNames | undefined) => {
    const isExtended = reply.expressions.some(({ name }) => name === 'match' || name === 'target');
    const { spec, isExact } = iptablesRule(family, reply, names);
    const isOwn = isExtended || (isExact && BASES_OF_IPTABLES.includes(base));
    return isOwn ? parseIptablesRule(family, chain, spec, ownChain) : undefined;
  };
  const readAll = async (chain: string) => {
    const found = await netlink.use((requests) =>
      requests.rules({ ...name, chain }, undefined, MOST_OF_CHAIN),
    );
    budget.count(found.length + 1);
    const names = isOfIptables ? await setNames(netlink, found) : undefined;
    const decoded = await budget.map(found, (reply): Decoded => {
      const own = isOfIptables ? fromIptables(reply, chain, names) : undefined;
      if (own !== undefined) return { reply, statements: [], own };
      return { reply, statements: decode(family, reply.expressions) };
    });
    for (const wanted of decoded.flatMap(({ statements }) => setsIn(statements))) {
      const set = sets.get(wanted.name) ?? (await readSet(netlink, { ...name, set: wanted.name }, wanted));
      if (set !== undefined) sets.set(wanted.name, set);
    }
    const context: NftContext = { family, place: { ...name, chain }, sets };
    const rules = await budget.map(decoded, ({ reply, statements, own }) => {
      if (own !== undefined) return [{ ...own, ...deletion(context.place, reply) }];
      const elements = readNftRule(context, reply, statements);
      budget.count(elements.length - 1);
      return elements;
    });
    return rules.flat().map((rule) => (isOfIptables ? markOwn(rule, ownChain) : rule));
  };
  return async (chain) => {
    try {
      return await readAll(chain);
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

function markOwn(rule: Rule, ownChain: string): Rule {
  const leads = 'chain' in rule.outcome && rule.outcome.chain === ownChain;
  return leads ? { ...rule, outcome: { kind: 'own' } } : rule;
}

import type { Family } from '../cidr/address.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { type Netlink, noAnswer, type Requests } from '../dataplane/netlink.ts';
import type { Rule } from '../dataplane/rule.ts';
import type { NatChain } from '../netlink/replies.ts';
import type { ReadRules } from './base-chain.ts';
import { type Budget, MOST_LISTED } from './budget.ts';
import { at, type Json, listAt, listNft, type NftName } from './nft-list.ts';
import { namesIn, parseNftRule } from './nft-rule.ts';

interface Limits {
  readonly rules: number;
  /** Undefined if the tool does not list elements. */
  readonly elements?: number;
}

/** Says why a tool must not list a chain, because it may need more memory than there is; undefined if it may. */
export type Refusal = (chain: Omit<NatChain, 'priority'>, most: Limits) => Promise<string | undefined>;

export const UNKNOWN_SIZE = 'how much memory a listing would need is known only over netlink';

/** Asks the kernel how much a chain holds. Without an answer, it must not be listed. */
export function createRefusal(netlink: Netlink | undefined): Refusal {
  return async ({ family, table, chain }, { rules, elements }) => {
    const size = (requests: Requests) => requests.size({ family, table, chain }, elements ?? 0);
    const asked = await netlink?.use(async (requests) => ({ size: await size(requests) })).catch(noAnswer);
    if (asked === undefined) return UNKNOWN_SIZE;
    const holds = asked.size ?? { rules: 0, elements: 0 };
    if (holds.rules > rules) return `chain ${chain} has more than ${rules} rules`;
    if (elements === undefined || holds.elements <= elements) return undefined;
    return `the sets of table ${table} have more than ${elements} elements`;
  };
}

/** Reads the chains of a table as packets of the family meet them. */
export type NftReader = (table: Pick<NatChain, 'family' | 'table'>, family: Family) => ReadRules;

/**
 * Makes a reader that lists each chain, set and map once.
 *
 * @param ownChain the agent's own chain in the tables of iptables, `ip nat` and `ip6 nat`
 */
export function createNftReader(host: Host, ownChain: string, budget: Budget, refusal: Refusal): NftReader {
  const answers = new Map<string, ReturnType<typeof listNft>>();
  const list = (what: NftName) => {
    const key = JSON.stringify(what);
    const answer = answers.get(key) ?? listNft(host, what);
    answers.set(key, answer);
    return answer;
  };
  const readRules = async (table: Omit<NftName, 'kind' | 'name'>, chain: string, family: Family) => {
    const objects = await list({ kind: 'chain', ...table, name: chain });
    const found = objects?.map((object) => at(object, 'rule')).filter((rule) => rule !== undefined);
    const named = new Map<string, readonly Json[]>();
    const names = (await budget.map(found ?? [], namesIn)).flat();
    for (const { kind, name } of names) {
      const object = (await list({ kind, ...table, name }))?.find((one) => at(one, kind) !== undefined);
      // An empty set has no member "elem".
      if (object !== undefined) named.set(name, listAt(object, kind, 'elem') ?? []);
    }
    const context = { family, named, checkBudget: () => budget.check() };
    const own = table.table === 'nat' && table.family !== 'inet' ? ownChain : undefined;
    const rules = found && (await budget.map(found, (rule) => parseNftRule(context, rule)));
    return rules?.flat().map((rule) => markOwn(rule, own));
  };
  return ({ family: tableFamily, table }, family) =>
    async (chain) => {
      const refused = await refusal({ family: tableFamily, table, chain }, MOST_LISTED.nft);
      if (refused !== undefined) return refused;
      try {
        return await readRules({ family: tableFamily, table }, chain, family);
      } catch (error) {
        // What nft cannot tell of one chain must not hide the others.
        if (!(error instanceof DataplaneError)) throw error;
        return error.message;
      }
    };
}

function markOwn(rule: Rule, ownChain: string | undefined): Rule {
  const leads = 'chain' in rule.outcome && rule.outcome.chain === ownChain;
  return leads ? { ...rule, outcome: { kind: 'own' } } : rule;
}

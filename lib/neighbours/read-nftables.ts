import type { Family } from '../cidr/address.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { NFT_FAMILY } from '../dataplane/nftables/names.ts';
import type { ReadRules, Rule } from './base-chain.ts';
import type { Budget } from './budget.ts';
import { at, type Json, listAt, listNft, type NftName } from './nft-list.ts';
import { namesIn, parseNftRule } from './nft-rule.ts';

/** A base chain: how nft(8) names its table and, in it, the chain. */
export interface NftChain {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
  /** Undefined if nft does not say it. */
  readonly priority: number | undefined;
}

/**
 * Finds the base chains of type nat at the hook postrouting. Of all rules it reads none, of all chains the names.
 *
 * @throws {DataplaneError}
 */
export async function findNatChains(host: Host): Promise<readonly NftChain[]> {
  const objects = (await listNft(host)) ?? [];
  return objects.flatMap((object): NftChain[] => {
    const found = at(object, 'chain');
    if (at(found, 'type') !== 'nat' || at(found, 'hook') !== 'postrouting') return [];
    const names = ['family', 'table', 'name'].map((key) => at(found, key));
    const [family, table, chain] = names.filter((name) => typeof name === 'string');
    const priority = at(found, 'prio');
    if (!family || !table || !chain) return [];
    return [{ family, table, chain, priority: typeof priority === 'number' ? priority : undefined }];
  });
}

/** Reads the chains of a table as packets of the family meet them. */
export type NftReader = (table: Pick<NftChain, 'family' | 'table'>, family: Family) => ReadRules;

/**
 * Makes a reader that lists each chain, set and map once.
 *
 * @param ownChain the agent's own chain in the tables of iptables, `ip nat` and `ip6 nat`
 */
export function createNftReader(host: Host, ownChain: string, budget: Budget): NftReader {
  const answers = new Map<string, ReturnType<typeof listNft>>();
  const list = (what: NftName) => {
    const key = JSON.stringify(what);
    const answer = answers.get(key) ?? listNft(host, what);
    answers.set(key, answer);
    return answer;
  };
  const readRules = async (place: Omit<NftName, 'kind' | 'name'>, chain: string, family: Family) => {
    const objects = await list({ kind: 'chain', ...place, name: chain });
    const found = objects?.map((object) => at(object, 'rule')).filter((rule) => rule !== undefined);
    const named = new Map<string, readonly Json[]>();
    const names = (await budget.map(found ?? [], namesIn)).flat();
    for (const { kind, name } of names) {
      const object = (await list({ kind, ...place, name }))?.find((one) => at(one, kind) !== undefined);
      // An empty set has no member "elem".
      if (object !== undefined) named.set(name, listAt(object, kind, 'elem') ?? []);
    }
    const context = { family, named, check: () => budget.check() };
    const own = place.table === 'nat' && place.family !== 'inet' ? ownChain : undefined;
    const rules = found && (await budget.map(found, (rule) => parseNftRule(context, rule)));
    return rules?.flat().map((rule) => markOwn(rule, own));
  };
  return ({ family: tableFamily, table }, family) =>
    async (chain) => {
      try {
        return await readRules({ family: tableFamily, table }, chain, family);
      } catch (error) {
        // What nft cannot tell of one chain must not hide the others.
        if (!(error instanceof DataplaneError)) throw error;
        return error.message;
      }
    };
}

/** Whether packets of the family meet the chain at all. */
export function isMetBy(family: Family, { family: tableFamily }: NftChain): boolean {
  return tableFamily === NFT_FAMILY[family].protocol || tableFamily === 'inet';
}

function markOwn(rule: Rule, ownChain: string | undefined): Rule {
  const leads = 'chain' in rule.outcome && rule.outcome.chain === ownChain;
  return leads ? { ...rule, outcome: { kind: 'own' } } : rule;
}

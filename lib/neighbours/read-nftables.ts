import type { Family } from '../cidr/address.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { NFT_FAMILY } from '../dataplane/nftables/names.ts';
import { type BaseChain, collectChains, type ReadRules, type Rule } from './base-chain.ts';
import { type Json, type JsonObject, listAt, objectAt, textAt } from './nft-json.ts';
import { listNft, type NftName } from './nft-list.ts';
import { namesIn, parseNftRule } from './nft-rule.ts';

/** The name of a chain in nft(8), with its table. */
export interface NftChain {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
}

/** The most chains to read for one base chain: each starts a process. */
const MOST_CHAINS = 256;

/** Reads the rules of nftables. It reads each object only once. */
export interface NftReader {
  /**
   * Finds the base chains of type nat at the hook postrouting. It reads only the names of chains, and no rules.
   *
   * @throws {DataplaneError}
   */
  look(): Promise<readonly NftChain[]>;
  /** Reads a base chain for packets of the family; undefined if it does not exist any more. */
  read(base: NftChain, family: Family): Promise<BaseChain | undefined>;
  /** The rules of the chains of a table. */
  rules(table: Omit<NftChain, 'chain'>, family: Family): ReadRules;
}

/**
 * Makes a reader.
 *
 * @param ownChain the agent's chain in the tables of iptables, `ip nat` and `ip6 nat`
 */
export function createNftReader(host: Host, ownChain: string): NftReader {
  const list = remembering((what) => listNft(host, what));
  const rules: NftReader['rules'] = (at, family) => async (chain) => {
    try {
      const found = await readRules(list, at, chain, family);
      const own = at.table === 'nat' && at.family !== 'inet' ? ownChain : undefined;
      return found?.map((rule) => markOwn(rule, own));
    } catch (error) {
      // An unreadable chain must not hide the others.
      if (!(error instanceof DataplaneError)) throw error;
      return { reason: error.message };
    }
  };
  return {
    rules,
    look: async () => (await listNft(host))?.flatMap(baseChain) ?? [],
    async read(base, family) {
      const collected = await collectChains(base.chain, MOST_CHAINS, rules(base, family));
      if (collected === undefined) return undefined;
      const where = `nftables ${base.family} ${base.table} ${base.chain}`;
      return { where, family, name: base.chain, ...collected };
    },
  };
}

/** Whether packets of the family meet the chain. */
export function isMetBy(family: Family, { family: tableFamily }: NftChain): boolean {
  return tableFamily === NFT_FAMILY[family].protocol || tableFamily === 'inet';
}

type List = (what: NftName) => Promise<readonly JsonObject[] | undefined>;

async function readRules(
  list: List,
  { family: tableFamily, table }: Omit<NftChain, 'chain'>,
  chain: string,
  family: Family,
): Promise<readonly Rule[] | undefined> {
  const at = { family: tableFamily, table };
  const listed = await list({ kind: 'chain', ...at, name: chain });
  const found = listed?.flatMap((object) => objectAt(object, 'rule') ?? []);
  const named = new Map<string, readonly Json[]>();
  for (const { kind, name } of found?.flatMap(namesIn) ?? []) {
    const objects = await list({ kind, ...at, name });
    const object = objects?.map((one) => objectAt(one, kind)).find((one) => one !== undefined);
    // An empty set has no member "elem".
    if (object !== undefined) named.set(name, listAt(object, 'elem') ?? []);
  }
  return found?.flatMap((rule) => parseNftRule(family, rule, named));
}

function markOwn(rule: Rule, ownChain: string | undefined): Rule {
  const leads = 'chain' in rule.outcome && rule.outcome.chain === ownChain;
  return leads ? { ...rule, outcome: { kind: 'own' } } : rule;
}

function baseChain(object: Json): readonly NftChain[] {
  const chain = objectAt(object, 'chain');
  if (textAt(chain, 'type') !== 'nat' || textAt(chain, 'hook') !== 'postrouting') return [];
  const [family, table, name] = ['family', 'table', 'name'].map((key) => textAt(chain, key));
  return family === undefined || table === undefined || name === undefined
    ? []
    : [{ family, table, chain: name }];
}

function remembering(list: List): List {
  const answers = new Map<string, ReturnType<List>>();
  return (what) => {
    const { kind, family, table, name } = what;
    const key = JSON.stringify([kind, family, table, name]);
    const answer = answers.get(key) ?? list(what);
    answers.set(key, answer);
    return answer;
  };
}

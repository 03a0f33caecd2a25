import type { Family } from '../../cidr/address.ts';
import { DataplaneError } from '../error.ts';
import type { Host, ToolResult } from '../host.ts';
import { type BaseChain, collectChains, type ReadRules, type Rule } from './chain.ts';
import { isObject, type Json, type JsonObject, listAt, objectAt, textAt } from './nft-json.ts';
import { namesIn, parseNftRule } from './nft-rule.ts';

/** How nft(8) names a table and, in it, a chain. */
export interface NftChain {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
}

/** The base chains of type nat at the hook postrouting, or why nobody can tell. */
export type NftLook =
  | { readonly kind: 'read'; readonly baseChains: readonly NftChain[] }
  | { readonly kind: 'unavailable'; readonly reason: string };

/** Families of tables that see packets of a family. */
const TABLE_FAMILIES: Readonly<Record<Family, readonly string[]>> = {
  IPv4: ['ip', 'inet'],
  IPv6: ['ip6', 'inet'],
};

/** Most chains to read below one base chain: each costs a process. */
const MOST_CHAINS = 256;

/** Reads the rules of nftables; whatever it has read once it does not read again. */
export interface NftReader {
  /**
   * Finds the base chains. Of all rules it reads none, of all chains the names.
   *
   * @throws {DataplaneError} where the kernel does not let it look
   */
  look(): Promise<NftLook>;
  /** A base chain as it meets packets of the family; undefined where it does not see them, or has gone. */
  read(base: NftChain, family: Family): Promise<BaseChain | undefined>;
  /** The rules of one chain; undefined where there is none. */
  rules(chain: NftChain, family: Family): Promise<readonly Rule[] | undefined>;
}

/** @param ownChain the agent's own chain in the tables of iptables, `ip nat` and `ip6 nat` */
export function createNftReader(host: Host, ownChain: string): NftReader {
  const list = remembering((what: readonly string[]) => listObjects(host, what));

  const rules: NftReader['rules'] = async ({ family: tableFamily, table, chain }, family) => {
    const listed = await list(['chain', tableFamily, table, chain]);
    const found = listed?.flatMap((object) => objectAt(object, 'rule') ?? []);
    if (found === undefined) return undefined;
    const named = new Map<string, readonly Json[]>();
    for (const { kind, name } of found.flatMap(namesIn)) {
      const objects = await list([kind, tableFamily, table, name]);
      const object = objects?.map((one) => objectAt(one, kind)).find((one) => one !== undefined);
      // An empty set has no member "elem".
      if (object !== undefined) named.set(name, listAt(object, 'elem') ?? []);
    }
    const ours = table === 'nat' && tableFamily !== 'inet' ? ownChain : undefined;
    return found.flatMap((rule) => parseNftRule(family, rule, named)).map((rule) => withOurs(rule, ours));
  };

  return {
    rules,
    look: () => look(host),
    async read(base, family) {
      if (!TABLE_FAMILIES[family].includes(base.family)) return undefined;
      const readRules: ReadRules = (chain) => rules({ ...base, chain }, family);
      const collected = await collectChains(base.chain, MOST_CHAINS, readRules);
      if (collected === undefined) return undefined;
      const where = `nftables ${base.family} ${base.table} ${base.chain}`;
      return { where, family, name: base.chain, ...collected };
    },
  };
}

function withOurs(rule: Rule, ownChain: string | undefined): Rule {
  const leads = 'chain' in rule.outcome && rule.outcome.chain === ownChain;
  return leads ? { ...rule, outcome: { kind: 'ours' } } : rule;
}

async function look(host: Host): Promise<NftLook> {
  try {
    // Other ways to find base chains ("list tables", "list hooks") read all rules: seconds with 75,000 of them.
    const result = await host.run('nft', ['-j', 'list', 'chains']);
    // Neither a kernel without nf_tables nor an nft without JSON is a fault of the node.
    if (result.code !== 0 && /not supported|compiled/i.test(result.stderr)) {
      return { kind: 'unavailable', reason: `nft cannot tell: ${firstLine(result)}` };
    }
    if (result.code !== 0) throw failure(result);
    const objects = parse(result.stdout);
    if (objects === undefined) return { kind: 'unavailable', reason: 'nft printed something else than JSON' };
    return { kind: 'read', baseChains: objects.flatMap(baseChain) };
  } catch (error) {
    if (!(error instanceof DataplaneError) || error.failure !== 'missing') throw error;
    return { kind: 'unavailable', reason: error.message };
  }
}

function baseChain(object: Json): readonly NftChain[] {
  const chain = objectAt(object, 'chain');
  if (textAt(chain, 'type') !== 'nat' || textAt(chain, 'hook') !== 'postrouting') return [];
  const [family, table, name] = ['family', 'table', 'name'].map((key) => textAt(chain, key));
  return family === undefined || table === undefined || name === undefined
    ? []
    : [{ family, table, chain: name }];
}

/** What nft(8) takes for a name; it joins its arguments and reads anything else as another command. */
const NAME = /^[A-Za-z_][A-Za-z0-9_/\\.-]*$/;

/** What `nft -j list` prints; undefined where there is no such thing (any more), or nft cannot name it. */
async function listObjects(host: Host, what: readonly string[]): Promise<readonly JsonObject[] | undefined> {
  if (!what.every((word) => NAME.test(word))) return undefined;
  const result = await host.run('nft', ['-j', 'list', ...what]);
  if (result.code === 0) return parse(result.stdout);
  if (/No such file or directory|does not exist/i.test(result.stderr)) return undefined;
  throw failure(result);
}

function parse(stdout: string): readonly JsonObject[] | undefined {
  try {
    const objects = listAt(JSON.parse(stdout), 'nftables');
    return objects?.filter((object) => isObject(object));
  } catch {
    return undefined;
  }
}

function failure(result: ToolResult): DataplaneError {
  const denied = /Operation not permitted|Permission denied/i.test(result.stderr);
  const remedy = denied
    ? 'run the agent as root with the capability NET_ADMIN'
    : 'run the command by hand on the node to see more';
  return new DataplaneError('refused', `nft failed: ${firstLine(result)}`, remedy);
}

function firstLine({ stderr, code }: ToolResult): string {
  return stderr.trim().split('\n')[0] || `exit code ${code}`;
}

function remembering<Result>(
  ask: (words: readonly string[]) => Promise<Result>,
): (words: readonly string[]) => Promise<Result> {
  const answers = new Map<string, Promise<Result>>();
  return (words) => {
    const answer = answers.get(words.join(' ')) ?? ask(words);
    answers.set(words.join(' '), answer);
    return answer;
  };
}

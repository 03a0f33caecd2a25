import type { Family } from '../../cidr/address.ts';
import { KEY_TYPE } from '../../netlink/change.ts';
import { interrupted, NetlinkError } from '../../netlink/error.ts';
import { NFT_SET } from '../../netlink/messages.ts';
import type { ChainReply, SetReply } from '../../netlink/replies.ts';
import type { Requests } from '../netlink.ts';
import type { RuleOptions } from '../options.ts';
import { CHAINS, TABLE, tableName } from './names.ts';
import { type Table, tableOf } from './ruleset.ts';
import { ShownRules } from './shown-rules.ts';

/**
 * Reads the table with the name of the agent's table; undefined if there is none.
 *
 * @param options of the agent's rules; and the most elements of a set, and rules, that are read: of more, the set or the rules count
 * as others than the agent's
 * @param shown how the kernel shows the agent's rules
 * @param generation of nf_tables before
 * @throws {NetlinkError}
 */
export async function readTable(
  requests: Requests,
  family: Family,
  options: RuleOptions,
  shown = new ShownRules(),
  generation?: number,
): Promise<Table | undefined> {
  const table = await readOnce(requests, family, options, shown);
  // What the table counts and what is listed may be of two moments.
  const mayBeTorn = generation !== undefined && table !== undefined && table.others !== 0;
  if (mayBeTorn && (await requests.generation()).id !== generation)
    throw interrupted(`list table ${tableName(family)}`);
  return table;
}

async function readOnce(
  requests: Requests,
  family: Family,
  options: RuleOptions,
  shown: ShownRules,
): Promise<Table | undefined> {
  const { mostObjects: most = Number.MAX_SAFE_INTEGER } = options;
  const place = { family, table: TABLE };
  const table = await requests.table(place);
  if (table === undefined) return undefined;
  const sets = [];
  for (const set of await requests.sets(place)) {
    const read = () => requests.elements({ ...place, set: set.name }, most * OBJECT_BYTES);
    const elements = holdsRanges(set, family) ? await unlessTooMany(read(), TOO_MANY) : undefined;
    sets.push({ ...set, elements });
  }
  const own: ChainReply[] = [];
  for (const chain of CHAINS) {
    const found = await requests.chain({ ...place, chain });
    if (found !== undefined) own.push(found);
  }
  // To find chains of other names, the kernel sends those of all tables: 27,000 beside kube-proxy.
  const chains = table.use === sets.length + own.length ? own : await requests.chains(place);
  const objects = table.use === sets.length + chains.length ? [] : await requests.objects(place);
  const listed = await unlessTooMany(requests.rules(place, most * OBJECT_BYTES), []);
  const rules = Map.groupBy(shown.asMeant(listed), ({ chain }) => chain);
  const withRules = chains.map((chain) => ({ ...chain, rules: rules.get(chain.name) ?? [] }));
  return tableOf(family, options, table, { sets, chains: withRules, objects });
}

/** More than a rule or an element of the agent has. */
const OBJECT_BYTES = 1_024;

/** What stands for the elements of a set that holds too many. */
const TOO_MANY = { ranges: [], catchAll: false, hasOthers: true } as const;

async function unlessTooMany<Found, Instead>(
  reading: Promise<Found>,
  instead: Instead,
): Promise<Found | Instead> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof NetlinkError && error.failure === 'limit') return instead;
    throw error;
  }
}

/** Whether it is a set as the agent makes them: of any other, nothing that it holds is read. */
function holdsRanges({ flags, keyType }: SetReply, family: Family): boolean {
  return keyType === KEY_TYPE[family] && flags === NFT_SET.interval;
}

import type { Family } from '../../cidr/address.ts';
import { NFPROTO } from '../../netlink/messages.ts';
import { DataplaneError } from '../error.ts';
import type { Requests } from '../netlink.ts';

/** NFT_TABLE_F_DORMANT, NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC and NF_DROP. */
const [DORMANT, POSTROUTING_HOOK, SOURCE_NAT, DROP] = [1, 4, 100, 0];

interface NatState {
  /** Which of the agent's chains are there. */
  readonly chains: readonly string[];
  readonly obstacle: DataplaneError | undefined;
}

/** What netlink tells about `nat` of nf_tables without a tool. */
export async function readNat(
  requests: Pick<Requests, 'table' | 'chain'>,
  family: Family,
  names: readonly string[],
): Promise<NatState> {
  const chains: string[] = [];
  for (const chain of names) if (await requests.chain({ family, table: 'nat', chain })) chains.push(chain);
  return { chains, obstacle: await natObstacle(requests, family) };
}

/**
 * What another program has made of `nat` so that rules of iptables in nft mode do not have their effect; undefined if nothing.
 * iptables itself shows the policy of the chain alone.
 */
async function natObstacle(
  requests: Pick<Requests, 'table' | 'chain'>,
  family: Family,
): Promise<DataplaneError | undefined> {
  const nat = { family, table: 'nat' };
  const found = await requests.table(nat);
  if (found === undefined) return undefined;
  const { flags, owner } = found;
  const chain = await requests.chain({ ...nat, chain: 'POSTROUTING' });
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
      `another process owns the table ${table} (netlink port ${owner}, usually the process id): only that process may change it`,
      `end that process: the table goes with it${other}`,
    ],
    [
      chain !== undefined && !isInPlace,
      `the chain POSTROUTING in the table ${table} is not the one of iptables: ${type === undefined ? 'it has no hook' : `type ${type}, hook ${number}, priority ${priority}`}`,
      `find out which program has made it, and let it take another name${other}`,
    ],
    [
      policy === DROP,
      `the policy of the chain POSTROUTING in the table ${table} is drop: packets that no rule masquerades are dropped`,
      `find out which program has set it, and let it set the policy to accept`,
    ],
  ];
  const obstacle = obstacles.find(([isThere]) => isThere);
  return obstacle && new DataplaneError('blocked', obstacle[1], obstacle[2]);
}

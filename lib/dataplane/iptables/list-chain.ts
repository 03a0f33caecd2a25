import type { Family } from '../../cidr/address.ts';
import type { RuleReply } from '../../netlink/replies.ts';
import type { Host } from '../host.ts';
import { type Netlink, noAnswer } from '../netlink.ts';
import type { IptablesMode } from '../options.ts';
import type { SetNames } from './extensions.ts';
import { inTurns } from './legacy.ts';
import { iptablesRule } from './nft-rule.ts';
import { createTool, type Tool } from './tool.ts';

/** What is read of one chain over netlink. Measured: 5,000 rules of iptables have 2 MB. */
export const MOST_OF_CHAIN = { rules: 5_000, bytes: 4 * 1024 * 1024 } as const;

/** Lists chains of iptables as `Tool.list` does: in nft mode over netlink, if that works. */
export function chainLister(host: Host, family: Family, mode: IptablesMode, suffix: string): Tool['list'] {
  const { list } = createTool(inTurns(host, mode), family, suffix);
  const { netlink } = host;
  if (mode === 'legacy' || netlink === undefined) return list;
  return async (chain, table = 'nat') => {
    const specs: string[] = [];
    const add = (rule: RuleReply) => specs.push(iptablesRule(family, rule).spec);
    const reading = netlink.use((requests) =>
      requests.eachRule({ family, table, chain }, add, MOST_OF_CHAIN).then(() => specs),
    );
    return (await reading.catch(noAnswer)) ?? (await list(chain, table));
  };
}

/** The names of ipsets, of which rules hold only the index. */
export async function setNames(netlink: Netlink, indices: Iterable<number>): Promise<SetNames> {
  const names = new Map<number, string>();
  for (const index of indices) {
    const name = await netlink.use((requests) => requests.ipsetName(index)).catch(noAnswer);
    if (name !== undefined) names.set(index, name);
  }
  return names;
}

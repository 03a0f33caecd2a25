import type { Tool } from '../dataplane/iptables/tool.ts';
import type { IptablesMode } from '../dataplane/options.ts';
import { type BaseChain, collectChains, type ReadRules } from './base-chain.ts';
import { parseIptablesRule } from './iptables-rule.ts';

/** The chain of iptables at the hook postrouting. */
export const POSTROUTING = 'POSTROUTING';

/** The most chains to read: each starts a process, which in legacy mode loads the whole table. */
const MOST_CHAINS: Readonly<Record<IptablesMode, number>> = { nft: 256, legacy: 32 };

/**
 * Reads `POSTROUTING` of `nat` and the chains that it leads to, without the agent's chain; undefined if there is none.
 *
 * @param elsewhere reads chains that iptables cannot read, because nft(8) has put rules into them
 * @throws {DataplaneError}
 */
export async function readIptables(
  tool: Tool,
  mode: IptablesMode,
  ownChain: string,
  elsewhere: ReadRules = async () => undefined,
): Promise<BaseChain | undefined> {
  const { family } = tool;
  const collected = await collectChains(POSTROUTING, MOST_CHAINS[mode], async (chain) => {
    const specs = await tool.list(chain);
    return specs?.map((spec) => parseIptablesRule(family, chain, spec, ownChain)) ?? (await elsewhere(chain));
  });
  if (collected === undefined) return undefined;
  const command = family === 'IPv4' ? 'iptables' : 'ip6tables';
  return { where: `${command} (${mode}) nat ${POSTROUTING}`, family, name: POSTROUTING, ...collected };
}

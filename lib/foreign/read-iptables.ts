import type { Family } from '../cidr/address.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { findCommand } from '../dataplane/iptables/detect.ts';
import { inTurns, usesLegacyNat } from '../dataplane/iptables/legacy.ts';
import { parseIptablesRule } from '../dataplane/iptables/parse-rule.ts';
import { createTool, type Tool } from '../dataplane/iptables/tool.ts';
import { NFT_FAMILY } from '../dataplane/nftables/names.ts';
import type { IptablesMode } from '../dataplane/options.ts';
import type { NatChain } from '../netlink/replies.ts';
import { type BaseChain, type ReadRules, readBaseChain } from './base-chain.ts';
import { type Budget, MOST_CHAINS, MOST_LISTED } from './budget.ts';
import { type NftReader, type Refusal, readNative } from './read-nftables.ts';

/** How the agent uses iptables. */
export interface IptablesOptions {
  /** The chain of the agent in `nat`, which is not read. */
  readonly ownChain: string;
  /** The mode that the agent uses, and how its commands are called, as `detectMode` has found; undefined for neither. */
  readonly iptables: { readonly mode: IptablesMode; readonly suffix: string } | undefined;
}

/** What chains are read with. */
export interface Reader {
  readonly host: Host;
  readonly options: IptablesOptions;
  readonly budget: Budget;
  readonly nft: NftReader;
  readonly refusal: Refusal;
}

/** The chain of iptables at the hook postrouting. */
const POSTROUTING = 'POSTROUTING';

/** Whether it is a chain of iptables-nft, which keeps its tables in nf_tables as `ip nat` and `ip6 nat`. */
export function isIptables({ family: tableFamily, table, chain }: NatChain, family: Family): boolean {
  return tableFamily === NFT_FAMILY[family].protocol && table === 'nat' && chain === POSTROUTING;
}

/**
 * POSTROUTING of iptables-nft and what it leads to; undefined if there is none.
 *
 * @param base the chain as the kernel lists it; undefined if it was not asked
 */
export async function readNftMode(
  reader: Reader,
  family: Family,
  base: NatChain | undefined,
): Promise<BaseChain | undefined> {
  const { host, options, budget, nft, refusal } = reader;
  const suffix = await suffixOf(host, options, 'nft');
  if (suffix === undefined) return base && (await readNative(nft, family, base));
  const tool = createTool(budget.limit(host), family, suffix);
  const place = { family: NFT_FAMILY[family].protocol, table: 'nat' };
  const refused = async (chain: string) => {
    // Without netlink the agent itself reads this chain, and no other, at each sync.
    if (base === undefined && chain === POSTROUTING) return undefined;
    return await refusal({ ...place, chain }, MOST_LISTED.iptables);
  };
  const rules = iptablesRules(tool, options.ownChain, budget, base && nft(base, family), refused);
  return await readBaseChain(postrouting(family, 'nft'), MOST_CHAINS.nft, rules);
}

/** The same of iptables-legacy; undefined also if it is not in use. */
export async function readLegacyMode(
  { host, options, budget }: Reader,
  family: Family,
): Promise<BaseChain | undefined> {
  const inUse = options.iptables?.mode === 'legacy' || (await usesLegacyNat(host, family));
  if (inUse === false) return undefined;
  const suffix = await suffixOf(host, options, 'legacy');
  if (suffix !== undefined) {
    const tool = createTool(budget.limit(inTurns(host, 'legacy')), family, suffix);
    const rules = iptablesRules(tool, options.ownChain, budget);
    return await readBaseChain(postrouting(family, 'legacy'), MOST_CHAINS.legacy, rules);
  }
  if (inUse === undefined) return undefined;
  const message = `iptables-legacy is in use (${family}), but is not installed here`;
  throw new DataplaneError('missing', message, 'install it, or use an image that has it');
}

function postrouting(family: Family, mode: IptablesMode): Pick<BaseChain, 'where' | 'family' | 'name'> {
  const command = family === 'IPv4' ? 'iptables' : 'ip6tables';
  return { where: `${command} (${mode}) nat ${POSTROUTING}`, family, name: POSTROUTING };
}

/**
 * Reads chains of `nat`.
 *
 * @param elsewhere reads what iptables cannot read, because nft(8) has put rules into it
 * @param refusal why a chain must not be listed, if so
 */
function iptablesRules(
  { family, list }: Tool,
  ownChain: string,
  budget: Budget,
  elsewhere: ReadRules = async () => undefined,
  refusal: (chain: string) => Promise<string | undefined> = async () => undefined,
): ReadRules {
  return async (chain) => {
    const refused = await refusal(chain);
    if (refused !== undefined) return refused;
    const specs = await list(chain);
    if (specs === undefined) return await elsewhere(chain);
    return await budget.map(specs, (spec) => parseIptablesRule(family, chain, spec, ownChain));
  };
}

/** How the commands of a mode are called; undefined if they are not installed. */
async function suffixOf(
  host: Host,
  { iptables }: IptablesOptions,
  mode: IptablesMode,
): Promise<string | undefined> {
  return iptables?.mode === mode ? iptables.suffix : (await findCommand(host, mode))?.suffix;
}

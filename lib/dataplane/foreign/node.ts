import type { Family } from '../../cidr/address.ts';
import { DataplaneError } from '../error.ts';
import type { Host } from '../host.ts';
import { usesLegacyNat } from '../iptables/legacy.ts';
import type { IptablesMode } from '../iptables/options.ts';
import { createTool, type Tool, toolVersion } from '../iptables/tool.ts';
import type { BaseChain } from './chain.ts';
import { POSTROUTING, readIptables } from './iptables.ts';
import { createNftReader, type NftChain, type NftReader } from './nftables.ts';

export interface NodeOptions {
  readonly families: readonly Family[];
  /** The agent's own chain in `nat`, which is not looked into. */
  readonly ownChain: string;
  /** The mode that the agent uses, and how its commands are called, as `detectMode` has found; undefined for neither. */
  readonly iptables: { readonly mode: IptablesMode; readonly suffix: string } | undefined;
}

/** The rules of the node that may masquerade, and what could not be read of them, in words. */
export interface NodeRules {
  readonly baseChains: readonly BaseChain[];
  readonly unread: readonly string[];
}

/** The agent's own table in nftables mode. */
const OWN_TABLE = 'ip-masq-agent';

/**
 * kube-proxy's table in nftables mode masquerades only what kube-proxy itself has marked. To list any chain of it
 * nft(8) fetches every element of all its maps, and they have one for each Service.
 */
const SKIPPED_TABLES = [OWN_TABLE, 'kube-proxy'];

/** The tables that iptables-nft keeps in nf_tables are `ip nat` and `ip6 nat`. */
const IPTABLES_FAMILIES: Readonly<Record<Family, string>> = { IPv4: 'ip', IPv6: 'ip6' };

/**
 * Reads every chain of NAT at the hook postrouting, of iptables in both modes and of nftables, and what they lead to.
 *
 * @throws {DataplaneError} where the kernel refuses, or the tools that the agent itself uses fail
 */
export async function readNode(host: Host, options: NodeOptions): Promise<NodeRules> {
  const nft = createNftReader(host, options.ownChain);
  const look = await nft.look();
  const listed = look.kind === 'read' ? look.baseChains : undefined;
  const unread = look.kind === 'read' ? [] : [look.reason];
  const baseChains: BaseChain[] = [];
  for (const family of options.families) {
    const found = [
      await readNftMode(host, options, family, nft, listed),
      await readLegacyMode(host, options, family, unread),
      ...(await readNative(nft, listed ?? [], family)),
    ];
    baseChains.push(...found.filter((base) => base !== undefined));
  }
  const chains = baseChains.flatMap(({ where, unread: names }) =>
    names.map((name) => `${where}: chain ${name}`),
  );
  return { baseChains, unread: [...unread, ...chains] };
}

/** @param listed the base chains that nft knows; undefined where it knows nothing */
async function readNftMode(
  host: Host,
  { iptables, ownChain }: NodeOptions,
  family: Family,
  nft: NftReader,
  listed: readonly NftChain[] | undefined,
): Promise<BaseChain | undefined> {
  const base = listed?.find((chain) => isIptables(chain, family));
  if (listed !== undefined && base === undefined) return undefined;
  const suffix = iptables?.mode === 'nft' ? iptables.suffix : await otherSuffix(host, 'nft');
  if (suffix === undefined) return base && (await nft.read(base, family));
  const elsewhere = base && ((chain: string) => nft.rules({ ...base, chain }, family));
  return await readIptables(createTool(host, family, suffix), 'nft', ownChain, elsewhere);
}

async function readLegacyMode(
  host: Host,
  { iptables, ownChain }: NodeOptions,
  family: Family,
  unread: string[],
): Promise<BaseChain | undefined> {
  const read = (tool: Tool) => readIptables(tool, 'legacy', ownChain);
  if (iptables?.mode === 'legacy') return await read(createTool(host, family, iptables.suffix));
  const inUse = await usesLegacyNat(host, family);
  if (inUse === false) return undefined;
  const suffix = await otherSuffix(host, 'legacy');
  if (suffix === undefined) {
    if (inUse) unread.push(`iptables-legacy is in use (${family}), but is not installed here`);
    return undefined;
  }
  try {
    return await read(createTool(host, family, suffix));
  } catch (error) {
    // Where the agent itself works in the other mode, this one need not work at all.
    if (!(error instanceof DataplaneError)) throw error;
    unread.push(error.message);
    return undefined;
  }
}

async function readNative(
  nft: NftReader,
  listed: readonly NftChain[],
  family: Family,
): Promise<readonly (BaseChain | undefined)[]> {
  const found: (BaseChain | undefined)[] = [];
  for (const base of listed) {
    if (SKIPPED_TABLES.includes(base.table) || isIptables(base, family)) continue;
    found.push(await nft.read(base, family));
  }
  return found;
}

function isIptables({ family: tableFamily, table, chain }: NftChain, family: Family): boolean {
  return tableFamily === IPTABLES_FAMILIES[family] && table === 'nat' && chain === POSTROUTING;
}

/** How the commands of a mode are called that the agent itself does not use; undefined where they are not installed. */
async function otherSuffix(host: Host, mode: IptablesMode): Promise<string | undefined> {
  for (const suffix of [`-${mode}`, '']) {
    if ((await toolVersion(host, `iptables${suffix}`))?.mode === mode) return suffix;
  }
  return undefined;
}

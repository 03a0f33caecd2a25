import type { Family } from '../cidr/address.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { findCommand } from '../dataplane/iptables/detect.ts';
import { inTurns, usesLegacyNat } from '../dataplane/iptables/legacy.ts';
import { createTool } from '../dataplane/iptables/tool.ts';
import { NFT_FAMILY, TABLE } from '../dataplane/nftables/names.ts';
import type { IptablesMode } from '../dataplane/options.ts';
import type { BaseChain } from './base-chain.ts';
import { POSTROUTING, readIptables } from './read-iptables.ts';
import { createNftReader, isMetBy, type NftChain, type NftReader } from './read-nftables.ts';

export interface NodeOptions {
  readonly families: readonly Family[];
  /** The agent's chain in `nat`, which is not read. */
  readonly ownChain: string;
  /** The iptables mode that the agent uses, and the suffix of its commands; undefined with nftables. */
  readonly iptables: { readonly mode: IptablesMode; readonly suffix: string } | undefined;
}

/** The rules of the node that may masquerade. */
export interface NodeRules {
  readonly baseChains: readonly BaseChain[];
  /** What could not be read, in words, which do not change as long as the cause is the same. */
  readonly unread: readonly string[];
  /** What was skipped on purpose, and why this is safe, in words. */
  readonly skipped: readonly string[];
}

/**
 * The table of kube-proxy in nftables mode. It masquerades only packets that kube-proxy itself has marked. To list one
 * of its chains, nft(8) would read all elements of all its maps, which have one for each Service.
 */
const SKIPPED_TABLE = 'kube-proxy';

/**
 * Reads all NAT chains at the hook postrouting, of iptables in both modes and of nftables, and the chains that they
 * lead to. Processes run one after the other, because a node may be small.
 *
 * @throws {DataplaneError} if the kernel refuses, or the tools that the agent itself uses fail
 */
export async function readNode(host: Host, options: NodeOptions): Promise<NodeRules> {
  const { families, ownChain, iptables } = options;
  const nft = createNftReader(host, ownChain);
  const unread: string[] = [];
  const listed = await attempt(unread, iptables === undefined, () => nft.look());
  const native = listed?.filter(({ table }) => table !== TABLE) ?? [];
  const baseChains: (BaseChain | undefined)[] = [];
  const skipped: string[] = [];
  for (const family of families) {
    baseChains.push(
      await attempt(unread, iptables?.mode === 'nft', () => readNftMode(host, options, family, nft, listed)),
      await attempt(unread, iptables?.mode === 'legacy', () => readLegacyMode(host, options, family)),
    );
    for (const base of native) {
      if (isIptables(base, family) || !isMetBy(family, base)) continue;
      if (base.table === SKIPPED_TABLE) skipped.push(skippedText(base));
      else baseChains.push(await nft.read(base, family));
    }
  }
  const read = baseChains.filter((base) => base !== undefined);
  unread.push(...read.flatMap((base) => base.unread.map((what) => `${base.where}: ${what}`)));
  return { baseChains: read, unread: [...new Set(unread)], skipped: [...new Set(skipped)] };
}

/**
 * The result of one way of reading; undefined if it fails. It may fail, unless the agent itself needs it (`isOwn`).
 */
async function attempt<Found>(
  unread: string[],
  isOwn: boolean,
  read: () => Promise<Found>,
): Promise<Found | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    if (isOwn && !['missing', 'unsupported'].includes(error.failure)) throw error;
    // A kernel that does not support such rules has none.
    if (error.failure !== 'unsupported') unread.push(error.message);
    return undefined;
  }
}

function skippedText({ family, table }: NftChain): string {
  return `nftables ${family} ${table}: skipped, because it masquerades only packets that kube-proxy itself has marked`;
}

/** @param listed the base chains that nft has found; undefined if nft failed */
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
  const elsewhere = base && nft.rules(base, family);
  return await readIptables(createTool(host, family, suffix), 'nft', ownChain, elsewhere);
}

async function readLegacyMode(
  host: Host,
  { iptables, ownChain }: NodeOptions,
  family: Family,
): Promise<BaseChain | undefined> {
  const isOwn = iptables?.mode === 'legacy';
  const inUse = isOwn || (await usesLegacyNat(host, family));
  if (inUse === false) return undefined;
  const suffix = isOwn ? iptables.suffix : await otherSuffix(host, 'legacy');
  if (suffix !== undefined) {
    const tool = createTool(inTurns(host, 'legacy'), family, suffix);
    return await readIptables(tool, 'legacy', ownChain);
  }
  if (inUse === undefined) return undefined;
  const message = `iptables-legacy is in use (${family}), but is not installed here`;
  throw new DataplaneError('missing', message, 'install it, or use an image that has it');
}

/** Whether it is a chain of iptables-nft, which keeps its tables in nf_tables as `ip nat` and `ip6 nat`. */
function isIptables({ family: tableFamily, table, chain }: NftChain, family: Family): boolean {
  return tableFamily === NFT_FAMILY[family].protocol && table === 'nat' && chain === POSTROUTING;
}

/** The suffix of the commands of a mode that the agent itself does not use; undefined if they are not installed. */
async function otherSuffix(host: Host, mode: IptablesMode): Promise<string | undefined> {
  return (await findCommand(host, mode))?.suffix;
}

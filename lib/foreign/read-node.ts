import type { Family } from '../cidr/address.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { TABLE } from '../dataplane/nftables/names.ts';
import type { NatChain } from '../netlink/replies.ts';
import type { BaseChain } from './base-chain.ts';
import { Budget, READ_MS, TooMany } from './budget.ts';
import {
  type IptablesOptions,
  isIptables,
  type Reader,
  readLegacyMode,
  readNftMode,
} from './read-iptables.ts';
import {
  createNftReader,
  createRefusal,
  isMetBy,
  readNative,
  UNKNOWN_SIZE,
  whereOf,
} from './read-nftables.ts';

export interface NodeOptions extends IptablesOptions {
  readonly families: readonly Family[];
}

/** The rules of the node that may masquerade. */
export interface NodeRules {
  readonly baseChains: readonly BaseChain[];
  /** What could not be read, in words; the same words as long as it is the same. */
  readonly unread: readonly string[];
  /** What is not read on purpose, and why that does no harm, in words. */
  readonly skipped: readonly string[];
  /** kube-proxy's chains at the priority of the chains of iptables, if the agent's rules are there: see `orderFindings`. */
  readonly rivals: readonly { readonly family: Family; readonly where: string }[];
}

/**
 * kube-proxy's table in nftables mode masquerades only what kube-proxy itself has marked. To list any chain of it
 * nft(8) fetches every element of all its maps, and they have one for each Service.
 */
const SKIPPED_TABLE = 'kube-proxy';

/** The priority of the chains of iptables: NF_IP_PRI_NAT_SRC in linux/netfilter_ipv4.h. */
const SRCNAT = 100;

/**
 * Reads every chain of NAT at the hook postrouting, of iptables in both modes and of nftables, and what they lead to.
 * One process after the other: a node may be small.
 *
 * @throws {DataplaneError} if the kernel refuses, or the tools that the agent itself uses fail
 */
export async function readNode(
  host: Host,
  options: NodeOptions,
  budget = new Budget(READ_MS),
): Promise<NodeRules> {
  const { families, ownChain, iptables } = options;
  const refusal = createRefusal(host.netlink);
  const nft = createNftReader(budget.limit(host), ownChain, budget, refusal);
  const reader = { host, options, budget, nft, refusal };
  const listed = await host.netlink?.ask((requests) => requests.natChains());
  const unread = listed === undefined ? [`nftables: ${UNKNOWN_SIZE}`] : [];
  const baseChains: BaseChain[] = [];
  try {
    for (const way of families.flatMap((family) => waysOf(reader, family, listed))) {
      const base = await attempt(unread, way);
      if (base !== undefined) baseChains.push(base);
    }
  } catch (error) {
    if (!(error instanceof TooMany)) throw error;
    unread.push(error.message);
  }
  unread.push(...baseChains.flatMap((base) => base.unread.map((what) => `${base.where}: ${what}`)));
  const skipped = families.flatMap((family) =>
    nativeChains(family, listed)
      .filter(isSkipped)
      .map((base) => ({ family, base })),
  );
  return {
    baseChains,
    unread: [...new Set(unread)],
    skipped: [...new Set(skipped.map(({ base }) => skippedText(base)))],
    rivals: skipped
      .filter(({ base }) => iptables !== undefined && base.priority === SRCNAT)
      .map(({ family, base }) => ({ family, where: whereOf(base) })),
  };
}

/** A way to read one base chain, which is undefined if it is not there. */
interface Way {
  /** Whether the agent itself works in this way. Otherwise it need not work at all. */
  readonly isOwn: boolean;
  readonly read: () => Promise<BaseChain | undefined>;
}

/** @param listed the base chains of the kernel; undefined if it was not asked */
function waysOf(reader: Reader, family: Family, listed: readonly NatChain[] | undefined): readonly Way[] {
  const { mode } = reader.options.iptables ?? {};
  const base = listed?.find((one) => isIptables(one, family));
  const mayBeThere = base !== undefined || (listed === undefined && mode === 'nft');
  return [
    ...(mayBeThere ? [{ isOwn: mode === 'nft', read: () => readNftMode(reader, family, base) }] : []),
    { isOwn: mode === 'legacy', read: () => readLegacyMode(reader, family) },
    ...nativeChains(family, listed)
      .filter((one) => !isSkipped(one))
      .map((one) => ({ isOwn: false, read: () => readNative(reader.nft, family, one) })),
  ];
}

/** The base chains of nftables that packets of the family meet, without those of iptables and of the agent. */
function nativeChains(family: Family, listed: readonly NatChain[] = []): readonly NatChain[] {
  return listed.filter((base) => base.table !== TABLE && isMetBy(family, base) && !isIptables(base, family));
}

function isSkipped({ table }: NatChain): boolean {
  return table === SKIPPED_TABLE;
}

/** What one way finds; undefined if it fails. */
async function attempt(unread: string[], { isOwn, read }: Way): Promise<BaseChain | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    if (isOwn && !['missing', 'unsupported'].includes(error.failure)) throw error;
    // Rules that the kernel does not know cannot be there.
    if (error.failure !== 'unsupported') unread.push(error.message);
    return undefined;
  }
}

function skippedText({ family, table }: NatChain): string {
  return `nftables ${family} ${table}: skipped, because it masquerades only packets that kube-proxy itself has marked`;
}

import { setFlagsFromString } from 'node:v8';
import type { Family } from '../cidr/address.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { findCommand } from '../dataplane/iptables/detect.ts';
import { inTurns, legacyTables } from '../dataplane/iptables/legacy.ts';
import { parseIptablesRule } from '../dataplane/iptables/parse-rule.ts';
import { createTool, IPTABLES_OF, type Tool } from '../dataplane/iptables/tool.ts';
import { noAnswer, whyNoNetlink } from '../dataplane/netlink.ts';
import { HOOK, SRCNAT, TABLE } from '../dataplane/nftables/names.ts';
import type { IptablesMode } from '../dataplane/options.ts';
import { TABLE_FAMILIES } from '../netlink/messages.ts';
import type { NatChain } from '../netlink/replies.ts';
import { type BaseChain, listedChain, type ReadRules, readBaseChain } from './base-chain.ts';
import { AGENT_LIMITS, Budget, MOST_CHAINS } from './budget.ts';
import { createNftReader } from './read-nftables.ts';

/** The chain of iptables at the hook postrouting. */
const POSTROUTING = 'POSTROUTING';

export interface NodeOptions {
  readonly families: readonly Family[];
  /** The chain of the agent in `nat`, which is not read. */
  readonly ownChain: string;
  /** The mode that the agent uses, and how its commands are called, as `detectMode` has found; undefined for neither. */
  readonly iptables: Dataplane['iptables'];
  /** Whether to read the chains of type filter too, except those of iptables, which has no words for what is looked for in them. */
  readonly withFilters?: boolean;
}

/** The rules of the node that may masquerade, or keep packets of pods from connection tracking. */
export interface NodeRules {
  readonly baseChains: readonly BaseChain[];
  /** What could not be read, in words; the same words as long as it is the same. */
  readonly unread: readonly string[];
  /** What is not read on purpose, and why that does no harm, in words. */
  readonly skipped: readonly string[];
  /** kube-proxy's chains of nftables that have the priority of the chains of iptables, if the agent uses iptables: see `orderFindings`. */
  readonly samePriority: readonly { readonly family: Family; readonly chainText: string }[];
}

/**
 * kube-proxy's table in nftables mode masquerades only what it marks itself and, since Kubernetes 1.36 by a set, pods that reach
 * themselves through a Service. Its maps have an element for each Service.
 */
const SKIPPED_TABLE = 'kube-proxy';

/**
 * Reads every chain of NAT at the hook postrouting, of iptables in both modes and of nftables, those of nf_tables before connection
 * tracking, and what they lead to.
 * One process after the other: a node may be small.
 *
 * @throws {DataplaneError} if the kernel refuses, or the tools that the agent itself uses fail
 */
export async function readNode(
  host: Host,
  options: NodeOptions,
  budget = new Budget(AGENT_LIMITS),
): Promise<NodeRules> {
  const { families, iptables } = options;
  // As for connections (`readFlows`): V8 would take what is made of a rule for long-lived, and 18,000 rules make 10 MB of garbage.
  setFlagsFromString('--no-allocation-site-pretenuring');
  const reader = { host, options, budget };
  const all = await host.netlink?.use((requests) => requests.natChains()).catch(noAnswer);
  const listed = all?.filter((base) => !base.isFilter || (options.withFilters && !isOfIptables(base)));
  const unread = listed === undefined ? [`nftables: ${withoutNetlink(host)}`] : [];
  const baseChains: BaseChain[] = [];
  for (const { isOwn, read } of families.flatMap((family) => basesOf(reader, family, listed))) {
    const base = await read().catch((error: unknown): undefined => {
      if (!(error instanceof DataplaneError) || (isOwn && !error.meansNoRules)) throw error;
      // Rules that the kernel does not know cannot be there.
      if (error.failure !== 'unsupported') unread.push(error.message);
    });
    if (base === undefined) continue;
    baseChains.push(base);
    if (base.cutBy === undefined) continue;
    unread.push(base.cutBy.message);
    break;
  }
  unread.push(...baseChains.flatMap((base) => base.unread.map((what) => `${base.chainText}: ${what}`)));
  const skipped = families.flatMap((family) => {
    const bases = nativeChains(family, listed).filter(({ table }) => table === SKIPPED_TABLE);
    return bases.map((base) => ({ family, base }));
  });
  return {
    baseChains,
    unread: [...new Set(unread)],
    skipped: [...new Set(skipped.map(({ base }) => skippedText(base)))],
    samePriority: skipped
      .filter(({ base }) => iptables !== undefined && base.priority === SRCNAT && !base.isFilter)
      .map(({ family, base }) => ({ family, chainText: chainTextOf(base) })),
  };
}

function withoutNetlink({ netlink }: Host): string {
  return `netlink does not work: ${whyNoNetlink(netlink)}`;
}

/** A base chain to read, which is undefined if it is not there. */
interface Base {
  /** Whether the agent itself uses this kind of chain. Otherwise it need not work at all. */
  readonly isOwn: boolean;
  readonly read: () => Promise<BaseChain | undefined>;
}

/** @param listed the base chains of the kernel; undefined if it was not asked */
function basesOf(reader: Reader, family: Family, listed: readonly NatChain[] | undefined): readonly Base[] {
  const { mode } = reader.options.iptables ?? {};
  const isByText = listed === undefined && mode === 'nft';
  const native = nativeChains(family, listed)
    .filter(({ table }) => table !== SKIPPED_TABLE)
    .map((one) => ({ isOwn: false, read: () => readNative(reader, family, one) }));
  const byText = isByText ? [{ isOwn: true, read: () => readNftMode(reader, family) }] : [];
  const legacy = { isOwn: mode === 'legacy', read: () => readLegacyMode(reader, family, 'nat') };
  const raw = { isOwn: false, read: () => readLegacyMode(reader, family, 'raw') };
  // The mode of the agent first: the budget may not suffice for all.
  return legacy.isOwn ? [legacy, raw, ...native] : [...byText, ...native, legacy, raw];
}

/**
 * The base chains in nf_tables that packets of the family meet, without those of the agent: that of iptables first, those of type
 * filter last, because the budget may not suffice for all.
 */
function nativeChains(family: Family, listed: readonly NatChain[] = []): readonly NatChain[] {
  const families: readonly string[] = [family, 'inet'];
  const rankOf = (base: NatChain) =>
    base.isFilter ? -1 : Number(isOfIptables(base) && base.table === 'nat');
  return listed
    .filter((base) => base.table !== TABLE && families.includes(base.family))
    .toSorted((a, b) => rankOf(b) - rankOf(a));
}

/** Whether it is a chain that iptables-nft has made, which keeps its tables in nf_tables as `ip nat`, `ip6 nat` and so on. */
function isOfIptables({ family, table, chain }: NatChain): boolean {
  const isTable = /^(?:raw|mangle|nat|filter|security)$/.test(table);
  return family !== 'inet' && isTable && /^P(?:RE|OST)ROUTING$/.test(chain);
}

function skippedText({ family, table }: NatChain): string {
  return `nftables ${TABLE_FAMILIES[family].word} ${table}: skipped, because it masquerades only what kube-proxy has marked, and pods that reach themselves through a Service`;
}

interface Reader {
  readonly host: Host;
  readonly options: NodeOptions;
  readonly budget: Budget;
}

function chainTextOf(base: NatChain): string {
  const { family, table, chain } = base;
  return family !== 'inet' && isOfIptables(base)
    ? `${IPTABLES_OF[family]} (nft) ${table} ${chain}`
    : `nftables ${TABLE_FAMILIES[family].word} ${table} ${chain}`;
}

/** A base chain over netlink, and what it leads to. */
async function readNative(
  { host, options, budget }: Reader,
  family: Family,
  base: NatChain,
): Promise<BaseChain | undefined> {
  if (host.netlink === undefined) return undefined;
  const own = options.iptables === undefined ? HOOK.priority : SRCNAT;
  const { isFilter = false, priority, chain: name } = base;
  const chain = { chainText: chainTextOf(base), family, name, isFilter, isAfterOwn: priority > own };
  const rules = createNftReader(host.netlink, base, family, options.ownChain, budget);
  return await readBaseChain(chain, MOST_CHAINS.nft, rules);
}

/** POSTROUTING of iptables-nft without netlink: no other chain is listed, because nobody knows whether that fits in memory. */
async function readNftMode(
  { host, options, budget }: Reader,
  family: Family,
): Promise<BaseChain | undefined> {
  const suffix = await suffixOf(host, options, 'nft');
  if (suffix === undefined) return undefined;
  const rules = iptablesRules(createTool(budget.limit(host), family, suffix), options.ownChain, budget);
  return await readBaseChain(baseOfIptables(family, 'nft', 'nat'), MOST_CHAINS.nft, async (chain) =>
    chain === POSTROUTING ? await rules(chain) : `chain ${chain}: ${withoutNetlink(host)}`,
  );
}

/** The same of iptables-legacy; undefined also if it is not in use. */
async function readLegacyMode(
  { host, options, budget }: Reader,
  family: Family,
  table: 'nat' | 'raw',
): Promise<BaseChain | undefined> {
  const isOwn = table === 'nat' && options.iptables?.mode === 'legacy';
  // Only root may know. To list a table that is not in use would make it.
  const inUse = isOwn || (await legacyTables(host, family))?.includes(table);
  if (inUse === false) return undefined;
  const suffix = await suffixOf(host, options, 'legacy');
  if (suffix !== undefined) {
    const tool = createTool(budget.limit(inTurns(host, 'legacy')), family, suffix);
    const rules = iptablesRules(tool, options.ownChain, budget, table);
    return await readBaseChain(baseOfIptables(family, 'legacy', table), MOST_CHAINS.legacy, rules);
  }
  if (inUse === undefined) return undefined;
  const message = `iptables-legacy is in use (${family}), but is not installed here`;
  throw new DataplaneError('missing', message, 'install it, or use an image that has it');
}

function baseOfIptables(
  family: Family,
  mode: IptablesMode,
  table: 'nat' | 'raw',
): Pick<BaseChain, 'chainText' | 'family' | 'name'> {
  const name = table === 'nat' ? POSTROUTING : 'PREROUTING';
  return { chainText: `${IPTABLES_OF[family]} (${mode}) ${table} ${name}`, family, name };
}

/** Reads chains of a table by the tool. */
function iptablesRules(
  { family, list, lacksExtension }: Tool,
  ownChain: string,
  budget: Budget,
  table: 'nat' | 'raw' = 'nat',
): ReadRules {
  return async (chain) => {
    const specs = await list(chain, table);
    const lacking = specs === undefined ? await lacksExtension(chain, table) : undefined;
    if (lacking !== undefined) {
      const message = `a rule in ${chain} of ${table} needs ${lacking}`;
      throw new DataplaneError('missing', message, 'use an image that has it');
    }
    return (
      specs && (await listedChain(specs, (spec) => parseIptablesRule(family, chain, spec, ownChain), budget))
    );
  };
}

/** How the commands of a mode are called; undefined if they are not installed. */
async function suffixOf(
  host: Host,
  { iptables }: NodeOptions,
  mode: IptablesMode,
): Promise<string | undefined> {
  return iptables?.mode === mode ? iptables.suffix : (await findCommand(host, mode))?.suffix;
}

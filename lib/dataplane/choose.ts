import { FAMILIES, type Family } from '../cidr/address.ts';
import { BY_FLAG, type Choice, COMMENT_START } from './dataplane.ts';
import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';
import { isOfOlderAgent } from './iptables/chain.ts';
import { findCommand } from './iptables/detect.ts';
import { inTurns, usesLegacyNat } from './iptables/legacy.ts';
import { readChains } from './iptables/observe.ts';
import { ruleTarget } from './iptables/rule.ts';
import { createTool, type Tool } from './iptables/tool.ts';
import { type Netlink, noAnswer, whyNoNetlink } from './netlink.ts';
import { CHAIN, TABLE } from './nftables/names.ts';
import { type Backend, type DataplaneOptions, DEFAULT_CHAIN, type IptablesMode } from './options.ts';

/** The table, and the chain of nat, that kube-proxy keeps in its two modes (pkg/proxy in Kubernetes). */
const KUBE_PROXY = { table: 'kube-proxy', chain: 'KUBE-SERVICES' } as const;

/** The names that say something, of those that the node has in either family. */
interface Evidence {
  readonly tables: ReadonlySet<string>;
  /** Chains of `nat`, in either mode of iptables; the agent's own one if `isInUse`. */
  readonly chains: ReadonlySet<string>;
  /** Whether there can be tables that nobody can read: netlink does not work. */
  readonly areHidden: boolean;
}

/**
 * Chooses the dataplane. A restart never switches: the agent's own rules say most. The chains of kubelet say nothing, because kubelet keeps them wherever there is iptables.
 */
export async function choose(options: DataplaneOptions, host: Host): Promise<Choice> {
  const { backend } = options;
  if (backend !== 'auto') return { backend, ...BY_FLAG };
  const flag = iptablesFlag(options);
  if (flag !== undefined) return { backend: 'iptables', by: 'trial', reason: `asked for by ${flag}` };
  const evidence = await readEvidence(host, options.mostObjects);
  const { tables, chains, areHidden } = evidence;
  const limit = areHidden ? '; nftables rules cannot be read, because netlink does not work' : '';
  const proxy = backendOfProxy(evidence);
  const inChains = chains.has(DEFAULT_CHAIN);
  const inTables = tables.has(TABLE);
  if (inChains && inTables) {
    const of = proxy === undefined ? '' : `, and kube-proxy uses ${proxy}`;
    const reason = `rules of the agent are in both dataplanes${of}`;
    return { backend: proxy ?? 'iptables', by: 'own-rules', reason };
  }
  if (inChains || inTables) {
    const reason = `rules of the agent are there${limit}`;
    return { backend: inChains ? 'iptables' : 'nftables', by: 'own-rules', reason };
  }
  if (areHidden) throw hiddenTables(host.netlink);
  if (proxy !== undefined) return { backend: proxy, by: 'kube-proxy', reason: `kube-proxy uses ${proxy}` };
  return { backend: 'iptables', by: 'trial', reason: 'neither the agent nor kube-proxy had rules' };
}

function backendOfProxy({ tables, chains }: Evidence): Backend | undefined {
  if (tables.has(KUBE_PROXY.table)) return 'nftables';
  return chains.has(KUBE_PROXY.chain) ? 'iptables' : undefined;
}

/** The flag that makes sense only for iptables, and so asks for it; undefined if none is set. */
export function iptablesFlag({ mode, chain }: DataplaneOptions): string | undefined {
  if (mode !== 'auto') return `--iptables-mode=${mode}`;
  return chain === DEFAULT_CHAIN ? undefined : `--masq-chain=${chain}`;
}

async function readEvidence(host: Host, most: number | undefined): Promise<Evidence> {
  const tables = [TABLE, KUBE_PROXY.table];
  // Another name asks for iptables.
  const chains = [DEFAULT_CHAIN, KUBE_PROXY.chain];
  const answer = host.netlink?.use(async (requests) => {
    const find = (chain: string, family: Family) => requests.chain({ family, table: 'nat', chain });
    const findRules = async (chain: string, family: Family) => {
      const { jumps, rules = [] } = await readChains(requests, family, chain, most);
      const texts = rules.map(({ spec }) => spec);
      return jumps.length > 0 || (!isOfOlderAgent(texts) && hasComments(texts));
    };
    // Without its chain, the kernel has taken the sets of the agent's table, and has refused the rules.
    const findTable = (table: string, family: Family) =>
      table === TABLE ? requests.chain({ family, table, chain: CHAIN }) : requests.table({ family, table });
    return {
      tables: await present(tables, FAMILIES, findTable),
      chains: [
        ...(await present([KUBE_PROXY.chain], FAMILIES, find)),
        ...(await present([DEFAULT_CHAIN], FAMILIES, findRules)),
      ],
    };
  });
  const read = await answer?.catch(noAnswer);
  return {
    tables: read?.tables ?? new Set(),
    areHidden: read === undefined,
    chains: new Set([
      ...(read?.chains ?? []),
      ...(await chainsOf('nft', read === undefined ? chains : [], host, most)),
      ...(await chainsOf('legacy', chains, host, most)),
    ]),
  };
}

/** What the agent must not leave in place beside rules in iptables, and could neither read nor delete. */
function hiddenTables(netlink: Netlink | undefined): DataplaneError {
  return new DataplaneError(
    'missing',
    `it is unknown whether this node has nftables rules of the agent, because netlink does not work: ${whyNoNetlink(netlink)}`,
    'make netlink work, or set --backend=iptables if the agent has never used nftables here',
  );
}

/** The names for which there is something in one of the families. */
async function present(
  names: readonly string[],
  families: readonly Family[],
  find: (name: string, family: Family) => Promise<unknown>,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (const name of names) for (const family of families) if (await find(name, family)) found.add(name);
  return found;
}

/** Those chains that a mode of iptables has; none in a family in which it cannot have any. */
async function chainsOf(
  mode: IptablesMode,
  names: readonly string[],
  host: Host,
  most: number | undefined,
): Promise<ReadonlySet<string>> {
  const families: Family[] = [];
  // iptables-legacy would load its kernel modules.
  for (const family of FAMILIES)
    if (mode === 'nft' || (await usesLegacyNat(host, family))) families.push(family);
  const command = families.length * names.length > 0 ? await findCommand(host, mode) : undefined;
  if (command === undefined) return new Set();
  const runner = inTurns(host, mode);
  const has = (name: string, family: Family) => {
    const tool = createTool(runner, family, command.suffix);
    return name === DEFAULT_CHAIN ? isInUse(tool, name, most) : tool.has('nat', name);
  };
  return await present(names, families, (name, family) => has(name, family).catch(noneIfImpossible));
}

/** Whether POSTROUTING leads to the chain, or it has rules of this agent. One of v1 or v2 without a jump does nothing. */
async function isInUse(tool: Tool, chain: string, most: number | undefined): Promise<boolean> {
  const jumps = await tool.list('POSTROUTING');
  if (jumps?.some((spec) => ruleTarget(spec) === chain)) return true;
  const listed = await tool.listOwn(chain, most);
  // Without a jump they do nothing.
  const rules = listed === 'too many' ? [] : (listed ?? []);
  // If iptables cannot read POSTROUTING, rules of an older agent may be in use.
  const isDead = jumps !== undefined && isOfOlderAgent(rules);
  return !isDead && hasComments(rules);
}

function hasComments(rules: readonly string[]): boolean {
  return rules.some((spec) => spec.includes(COMMENT_START));
}

function noneIfImpossible(error: unknown): undefined {
  if (!(error instanceof DataplaneError) || !error.meansNoRules) throw error;
}

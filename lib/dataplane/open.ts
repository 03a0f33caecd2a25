import { FAMILIES } from '../cidr/address.ts';
import type { WatchedTable } from '../netlink/watch.ts';
import { BY_FLAG, type Dataplane, type RuleLocation } from './dataplane.ts';
import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';
import { secondChain } from './iptables/chain.ts';
import { iptablesLocations, openIptables } from './iptables/iptables.ts';
import { usesLegacyNat } from './iptables/legacy.ts';
import { dataplaneError } from './nftables/failure.ts';
import { TABLE } from './nftables/names.ts';
import { openNftables } from './nftables/nftables.ts';
import type { DataplaneOptions, IptablesMode } from './options.ts';

/** The table that kube-proxy keeps in its nftables mode, in each family that it serves (pkg/proxy/nftables in Kubernetes). */
const KUBE_PROXY = 'kube-proxy';

/** What decides: `--backend`, or whether kube-proxy has its table. */
type Fact = 'flag' | 'table' | 'no table' | 'no answer';

/** Returns the dataplane to use now. All failures are DataplaneErrors that are thrown. */
export type ChooseDataplane = () => Promise<Dataplane>;

/**
 * Chooses the dataplane by facts of the node, never by what the agent did before: what `--backend` says; else nftables if kube-proxy
 * has its nftables table, or if iptables cannot work here; else iptables. As long as the facts are the same, it returns the same
 * object. Called before each reading, because after a boot the agent mostly starts before kube-proxy.
 */
export function dataplaneChooser(options: DataplaneOptions, host: Host): ChooseDataplane {
  const opened = new Map<Fact, Promise<Dataplane>>();
  const once = (fact: Fact, open: () => Promise<Dataplane>): Promise<Dataplane> => {
    const dataplane = opened.get(fact) ?? open();
    opened.set(fact, dataplane);
    dataplane.catch(() => opened.delete(fact));
    return dataplane;
  };
  const nftables = (reason: string) => async () => openNftables(options, host, reason);
  const fitting = (reason: string) => () => openFitting(options, host, reason);
  let last: Dataplane | undefined;
  return async () => {
    if (options.backend === 'iptables') return await once('flag', () => openIptables(options, host));
    if (options.backend === 'nftables') return await once('flag', nftables(BY_FLAG));
    const found = await findProxyTable(host);
    // No answer is not a reason to leave a dataplane.
    if (found instanceof DataplaneError && last !== undefined) return last;
    if (found instanceof DataplaneError && found.isRetryable) throw found;
    if (found === true) last = await once('table', nftables('kube-proxy uses nftables'));
    else if (found === false) last = await once('no table', fitting('kube-proxy does not use nftables'));
    // A kernel without nf_tables has no such table, and without netlink nftables cannot be used.
    else
      last = await once('no answer', fitting(`nf_tables cannot be asked about kube-proxy: ${found.message}`));
    return last;
  };
}

/** Whether kube-proxy has its nftables table; or why that cannot be told. */
async function findProxyTable({ netlink }: Host): Promise<boolean | DataplaneError> {
  try {
    const found = await netlink?.use(async (requests) => {
      for (const family of FAMILIES) if (await requests.table({ family, table: KUBE_PROXY })) return true;
      return false;
    });
    return found ?? false;
  } catch (error) {
    return dataplaneError(error);
  }
}

/** Opens iptables or, if it cannot work here, nftables. */
async function openFitting(options: DataplaneOptions, host: Host, reason: string): Promise<Dataplane> {
  let why: DataplaneError;
  try {
    return await openIptables(options, host, { reason, families: options.families });
  } catch (error) {
    if (!(error instanceof DataplaneError) || !error.meansNoRules) throw error;
    why = error;
  }
  try {
    return openNftables(options, host, `iptables does not work here: ${why.message}`);
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    throw new DataplaneError(
      error.failure,
      `no dataplane works on this node: ${why.message}; ${error.message}`,
      `${why.remedy}; or ${error.remedy}`,
    );
  }
}

/**
 * What decides in nf_tables: where rules of the agent can be, and with `auto`, whether kube-proxy has its table. kube-proxy changes
 * `nat` and its table all the time, so only the chains tell in the one, and only that it comes or goes in the other.
 */
export function watchedTables({ chain, backend }: DataplaneOptions): readonly WatchedTable[] {
  const chains = ['POSTROUTING', chain, secondChain(chain)];
  return FAMILIES.flatMap((family) => [
    { family, table: TABLE },
    { family, table: 'nat', chains },
    ...(backend === 'auto' ? [{ family, table: KUBE_PROXY, chains: [] }] : []),
  ]);
}

/** The modes of iptables in which the agent's chains may be, as far as the kernel tells that without a tool. */
export async function possibleModes(
  { chain }: DataplaneOptions,
  host: Host,
): Promise<readonly IptablesMode[]> {
  const chains = FAMILIES.flatMap((family) =>
    [chain, secondChain(chain)].map((name) => ({ family, table: 'nat', chain: name })),
  );
  const nft = await Promise.all(chains.map((name) => host.netlink?.has(name)));
  const legacy = await Promise.all(FAMILIES.map((family) => usesLegacyNat(host, family)));
  const isPossible = (found: readonly (boolean | undefined)[]) => found.some((one) => one !== false);
  return [
    ...(isPossible(nft) ? (['nft'] as const) : []),
    ...(isPossible(legacy) ? (['legacy'] as const) : []),
  ];
}

/**
 * All locations where rules of the agent can be: an earlier run may have used another dataplane, mode or family.
 *
 * @param modes the modes of iptables to list
 * @throws {DataplaneError} if no dataplane is installed
 */
export async function listRuleLocations(
  options: DataplaneOptions,
  host: Host,
  modes: readonly IptablesMode[] = ['nft', 'legacy'],
): Promise<readonly RuleLocation[]> {
  const installed: (readonly RuleLocation[])[] = [];
  for (const list of [
    ...modes.map((mode) => () => iptablesLocations(mode, options, host)),
    async () => {
      const dataplane = openNftables(options, host);
      return FAMILIES.map((family) => ({ dataplane, family }));
    },
  ]) {
    try {
      installed.push(await list());
    } catch (error) {
      if (!(error instanceof DataplaneError) || error.failure !== 'missing') throw error;
    }
  }
  if (installed.length > 0) return installed.flat();
  const remedy = 'install iptables, or allow netlink';
  throw new DataplaneError('missing', 'iptables is not installed, and nftables needs netlink', remedy);
}

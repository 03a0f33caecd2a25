import { FAMILIES } from '../cidr/address.ts';
import type { WatchedTable } from '../netlink/watch.ts';
import { choose, iptablesFlag } from './choose.ts';
import type { Choice, Dataplane, RuleLocation } from './dataplane.ts';
import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';
import { secondChain } from './iptables/chain.ts';
import { iptablesLocations, openIptables } from './iptables/iptables.ts';
import { usesLegacyNat } from './iptables/legacy.ts';
import { noAnswer } from './netlink.ts';
import { INTERIM_TABLE, TABLE } from './nftables/names.ts';
import { openNftables } from './nftables/nftables.ts';
import type { DataplaneOptions, IptablesMode } from './options.ts';

export interface Opened {
  readonly dataplane: Dataplane;
  /** What to tell the operator: a flag asks for what the node cannot run. */
  readonly warning?: string;
  /**
   * Opens nftables instead, if the kernel has refused the first transaction of iptables for the lack of something. Absent if
   * this dataplane is to stay: a flag names it, or it is nftables by choice.
   *
   * @param error of the first transaction
   * @throws the error, if it is another one; one that names both dataplanes, if nftables does not work either
   */
  readonly fallBack?: (error: unknown) => Promise<Opened>;
}

/**
 * Opens the dataplane to use.
 *
 * @throws {DataplaneError} if its tools are not installed, or fail
 */
export async function openDataplane(options: DataplaneOptions, host: Host): Promise<Opened> {
  const choice = await choose(options, host);
  if (choice.backend === 'nftables') return { dataplane: openNftables(options, host, choice) };
  if (choice.by === 'flag') return { dataplane: await openIptables(options, host, choice) };
  const fallBack = async (error: unknown) => {
    // Rules that no tool could remove must not stay beside others.
    const isOver =
      error instanceof DataplaneError && error.failure === 'missing' && choice.by === 'own-rules';
    if (isOver) throw error;
    return await openInstead(error, options, host);
  };
  const warning = options.invalidPackets === 'drop' && { warning: NOTHING_DROPPED };
  return await openIptables(options, host, choice).then(
    (dataplane) => ({ dataplane, fallBack, ...warning }),
    fallBack,
  );
}

const NOTHING_DROPPED =
  '--invalid-packets=drop has no effect: the rules are in iptables; use --backend=nftables, or leave it to kube-proxy, which drops such packets in its iptables mode';

async function openInstead(error: unknown, options: DataplaneOptions, host: Host): Promise<Opened> {
  const isOver = error instanceof DataplaneError && (error.meansNoRules || error.failure === 'unusable');
  if (!isOver) throw error;
  const reason = `iptables does not work here: ${error.message}`;
  const choice: Choice = { backend: 'nftables', by: 'failed-trial', reason };
  let dataplane: Dataplane;
  try {
    dataplane = openNftables(options, host, choice);
  } catch (other) {
    throw neitherWorks(error, other);
  }
  const flag = iptablesFlag(options);
  const fallBack = async (other: unknown) => {
    throw neitherWorks(error, other);
  };
  return { dataplane, fallBack, ...(flag && { warning: `${flag} has no effect; remove it: ${reason}` }) };
}

function neitherWorks(iptables: DataplaneError, nftables: unknown): unknown {
  if (!(nftables instanceof DataplaneError) || nftables.isRetryable) return nftables;
  return new DataplaneError(
    nftables.failure,
    `neither dataplane works on this node: ${iptables.message}; ${nftables.message}`,
    `for iptables, ${iptables.remedy}; for nftables, ${nftables.remedy}`,
  );
}

/** Where rules of the agent can be in nf_tables: kube-proxy changes `nat` all the time, so only the chain tells there. */
export function watchedTables({ chain }: DataplaneOptions): readonly WatchedTable[] {
  const chains = ['POSTROUTING', chain, secondChain(chain)];
  return FAMILIES.flatMap((family) => [
    { family, table: TABLE },
    { family, table: INTERIM_TABLE },
    { family, table: 'nat', chains },
  ]);
}

/** The modes of iptables in which the agent's chains may be, as far as the kernel tells that without a tool. */
export async function possibleModes(
  { chain }: DataplaneOptions,
  host: Host,
): Promise<readonly IptablesMode[]> {
  const hasChain = await host.netlink
    ?.use(async (requests) => {
      for (const family of FAMILIES)
        for (const name of [chain, secondChain(chain)])
          if (await requests.chain({ family, table: 'nat', chain: name })) return true;
      return false;
    })
    .catch(noAnswer);
  const legacy = await Promise.all(FAMILIES.map((family) => usesLegacyNat(host, family)));
  return [
    ...(hasChain === false ? [] : (['nft'] as const)),
    ...(legacy.every((inUse) => inUse === false) ? [] : (['legacy'] as const)),
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

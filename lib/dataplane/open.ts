import { FAMILIES } from '../cidr/address.ts';
import type { WatchedTable } from '../netlink/watch.ts';
import { choose, iptablesFlag } from './choose.ts';
import type { Choice, Dataplane, RuleLocation } from './dataplane.ts';
import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';
import { secondChain } from './iptables/chain.ts';
import { findCommand, withoutNft } from './iptables/detect.ts';
import { iptablesDataplane, iptablesLocations, openIptables } from './iptables/iptables.ts';
import { usesLegacyNat } from './iptables/legacy.ts';
import { NAT_MODULE } from './iptables/tool.ts';
import { noAnswer } from './netlink.ts';
import { TABLE } from './nftables/names.ts';
import { openNftables } from './nftables/nftables.ts';
import type { DataplaneOptions, IptablesMode } from './options.ts';

export interface Opened {
  readonly dataplane: Dataplane;
  /** What to tell the operator: a flag asks for what the node cannot run. */
  readonly warning?: string;
  /**
   * Opens what may work instead, if the kernel has refused the first transaction for the lack of something. Absent if this
   * dataplane is to stay: it is nftables by choice.
   *
   * @param error of the first transaction
   * @throws the error, if it is another one; one that names all that was tried, if nothing works
   */
  readonly fallBack?: (error: unknown) => Promise<Opened>;
}

/** Starts what opening the dataplane most likely waits for: a tool that runs while the config files are read. */
export function prepareDataplane({ backend, mode }: DataplaneOptions, host: Host): void {
  if (backend !== 'nftables') findCommand(host, mode === 'auto' ? 'nft' : mode).catch(() => {});
}

/**
 * Opens the dataplane to use.
 *
 * @throws {DataplaneError} if its tools are not installed, or fail
 */
export async function openDataplane(options: DataplaneOptions, host: Host): Promise<Opened> {
  const choice = await choose(options, host);
  if (choice.backend === 'nftables') return { dataplane: openNftables(options, host, choice) };
  if (choice.by === 'flag') {
    const dataplane = await openIptables(options, host, choice);
    return { dataplane, fallBack: (error) => openLegacy([error], dataplane, options, host) };
  }
  const openOther = async (error: unknown, dataplane?: Dataplane) => {
    // Rules that no tool could remove must not stay beside others.
    const isOver =
      error instanceof DataplaneError && error.failure === 'missing' && choice.by === 'own-rules';
    if (isOver) throw error;
    return await openInstead(error, dataplane, options, host);
  };
  const warning = options.invalidPackets === 'drop' && { warning: NOTHING_DROPPED };
  return await openIptables(options, host, choice).then(
    (dataplane) => ({ dataplane, fallBack: (error) => openOther(error, dataplane), ...warning }),
    openOther,
  );
}

const NOTHING_DROPPED =
  '--invalid-packets=drop has no effect: the rules are in iptables; use --backend=nftables, or leave it to kube-proxy, which drops such packets in its iptables mode';

/** @param iptables undefined if it could not be opened in any mode */
async function openInstead(
  error: unknown,
  iptables: Dataplane | undefined,
  options: DataplaneOptions,
  host: Host,
): Promise<Opened> {
  const isOver = error instanceof DataplaneError && (error.meansNoRules || error.failure === 'unusable');
  if (!isOver) throw error;
  const fallBack = (other: unknown) => openLegacy([error, other], iptables, options, host);
  const reason = `iptables does not work here: ${error.message}`;
  const choice: Choice = { backend: 'nftables', by: 'failed-trial', reason };
  let dataplane: Dataplane;
  try {
    dataplane = openNftables(options, host, choice);
  } catch (other) {
    return await fallBack(other);
  }
  const flag = iptablesFlag(options);
  if (flag) return { dataplane, fallBack, warning: `${flag} has no effect; remove it: ${reason}` };
  // Others need the table too, and nobody else may tell of it.
  const isBroken = error.failure === 'unusable';
  return { dataplane, fallBack, ...(isBroken && { warning: `${error.message}; ${error.remedy}` }) };
}

/**
 * Opens iptables in legacy mode, if the kernel has no NAT in nf_tables, and no flag names another mode.
 *
 * @param errors of iptables in nft mode and, unless a flag names iptables, of nftables
 * @param iptables undefined if it could not be opened in any mode
 * @throws the only error, or one that names all, unless the last one is not final
 */
async function openLegacy(
  errors: readonly unknown[],
  iptables: Dataplane | undefined,
  options: DataplaneOptions,
  host: Host,
): Promise<Opened> {
  const [first] = errors;
  const lacksNat = first instanceof DataplaneError && first.message.includes(NAT_MODULE);
  if (!lacksNat || options.mode !== 'auto' || iptables?.iptables?.mode !== 'nft') throw nothingWorks(errors);
  try {
    const dataplane = iptablesDataplane(await withoutNft(host, first), options, host, 'failed-trial');
    return { dataplane, fallBack: async (error) => Promise.reject(nothingWorks([...errors, error])) };
  } catch (error) {
    throw nothingWorks([...errors, error]);
  }
}

function nothingWorks(errors: readonly unknown[]): unknown {
  const last = errors.at(-1);
  const all = [...new Set(errors)].filter((error) => error instanceof DataplaneError);
  if (!(last instanceof DataplaneError) || last.isRetryable || all.length === 1) return last;
  return new DataplaneError(
    last.failure,
    `no dataplane works on this node: ${all.map(({ message }) => message).join('; ')}`,
    [...new Set(all.map(({ remedy }) => remedy))].join('; or '),
  );
}

/** Where rules of the agent can be in nf_tables: kube-proxy changes `nat` all the time, so only the chain tells there. */
export function watchedTables({ chain }: DataplaneOptions): readonly WatchedTable[] {
  const chains = ['POSTROUTING', chain, secondChain(chain)];
  return FAMILIES.flatMap((family) => [
    { family, table: TABLE },
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

import { DataplaneError } from '../error.ts';
import type { Host } from '../host.ts';
import type { IptablesMode } from '../options.ts';
import { inTurns, legacyTables } from './legacy.ts';
import { createTool, type Tool, type ToolVersion, toolVersion } from './tool.ts';

interface IptablesCommand extends ToolVersion {
  /** What follows `iptables` or `ip6tables` in their names. */
  readonly suffix: string;
}

/** The commands of the mode to use, and the reason in words. */
export interface Detected extends IptablesCommand {
  readonly reason: string;
}

/** The first version in which iptables-restore has --wait, and MASQUERADE has --random-fully. */
const OLDEST_VERSION = '1.6.2';

/** Chains in `mangle` by which kubelet shows other programs its mode; see Kubernetes KEP-3178. */
const KUBELET_CHAINS = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

/** Decides between the two modes. An agent does not see rules in the other mode. */
export async function detectMode(host: Host, wanted: IptablesMode | 'auto'): Promise<Detected> {
  if (wanted !== 'auto') {
    const command = await findCommand(host, wanted);
    if (command === undefined) throw notInstalled(`mode ${wanted}`);
    return found(command, 'set by --iptables-mode');
  }

  let nft: IptablesCommand | undefined;
  try {
    nft = await findCommand(host, 'nft');
  } catch (error) {
    return withoutNft(host, error);
  }
  if (nft === undefined) {
    const legacy = await findCommand(host, 'legacy');
    if (legacy === undefined) throw notInstalled('either mode');
    return found(legacy, 'iptables-nft is not installed');
  }
  const nftTool = createTool(host, 'IPv4', nft.suffix);
  try {
    const nftChain = await kubeletChain(async (chain) => {
      const asked = await host.netlink?.has({ family: 'IPv4', table: 'mangle', chain });
      return asked ?? (await nftTool.list(chain, 'mangle')) !== undefined;
    });
    if (nftChain !== undefined) return found(nft, `kubelet keeps ${nftChain} in this mode`);
  } catch (error) {
    return withoutNft(host, error);
  }

  // iptables-legacy would load its kernel modules; a file in /proc says whether the mode is in use.
  if ((await legacyTables(host, 'IPv4'))?.length === 0) return found(nft, 'no legacy table is in use');
  const legacy = await findCommand(host, 'legacy');
  if (legacy === undefined) return found(nft, 'iptables-legacy is not installed');
  const legacyTool = createTool(inTurns(host, 'legacy'), 'IPv4', legacy.suffix);
  const legacyChain = await kubeletChain(
    async (chain) => (await legacyTool.list(chain, 'mangle')) !== undefined,
  );
  if (legacyChain !== undefined) return found(legacy, `kubelet keeps ${legacyChain} in this mode`);

  const [ofNft, ofLegacy] = await Promise.all([builtInRules(nftTool.list), builtInRules(legacyTool.list)]);
  const counts = `built-in nat chains hold ${ofNft} rules in nft mode, ${ofLegacy} in legacy mode`;
  return found(ofLegacy > ofNft ? legacy : nft, counts);
}

/** Tries legacy mode, because a kernel without nf_tables, or without NAT in it, may have it. If this fails too, its error is thrown. */
async function withoutNft(host: Host, error: unknown): Promise<Detected> {
  const isFinal = !(error instanceof DataplaneError) || error.isRetryable || error.failure === 'denied';
  const legacy = isFinal ? undefined : await findCommand(host, 'legacy');
  if (isFinal || legacy === undefined) throw error;
  await createTool(host, 'IPv4', legacy.suffix).list('POSTROUTING');
  return found(legacy, `nft mode does not work here: ${error.message}`);
}

function notInstalled(modes: string): DataplaneError {
  const remedy = 'install iptables 1.8 or newer, or use an image that has it';
  return new DataplaneError('missing', `no iptables of ${modes} is installed`, remedy);
}

type Search = Promise<IptablesCommand | undefined>;

/** What was found, or is looked for: a process does not ask twice for a version. */
const searches = new WeakMap<Host, Map<IptablesMode, Search>>();

/** The command that is named after the mode, or the plain one if it has that mode. */
export function findCommand(host: Host, mode: IptablesMode): Search {
  const known = searches.get(host) ?? new Map<IptablesMode, Search>();
  searches.set(host, known);
  const search = known.get(mode) ?? lookFor(host, mode);
  known.set(mode, search);
  const forget = () => known.delete(mode);
  search.then((command) => command ?? forget(), forget);
  return search;
}

async function lookFor(host: Host, mode: IptablesMode): Search {
  for (const suffix of [`-${mode}`, '']) {
    const version = await toolVersion(host, `iptables${suffix}`);
    if (version?.mode === mode) return { ...version, suffix };
  }
  return undefined;
}

function found(command: IptablesCommand, reason: string): Detected {
  const { version } = command;
  if (rank(version) >= rank(OLDEST_VERSION)) return { ...command, reason };
  const remedy = `install iptables ${OLDEST_VERSION} or newer`;
  throw new DataplaneError('missing', `iptables ${version} is too old`, remedy);
}

/** To compare versions by their first three numbers. localeCompare would load all languages of ICU: 0.6 MB, and 10 ms. */
function rank(version: string): number {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number);
  return (major * 1_000 + minor) * 1_000 + patch;
}

async function kubeletChain(has: (chain: string) => Promise<boolean>): Promise<string | undefined> {
  const present = await Promise.all(KUBELET_CHAINS.map(has));
  return KUBELET_CHAINS.find((_, index) => present[index]);
}

/** The built-in chains of `nat`; hardly anybody uses INPUT. */
const BUILT_IN_CHAINS = ['PREROUTING', 'OUTPUT', 'POSTROUTING'];

/** How many rules the built-in chains of `nat` hold. */
async function builtInRules(list: Tool['list']): Promise<number> {
  const chains = await Promise.all(BUILT_IN_CHAINS.map((chain) => list(chain)));
  return chains.flatMap((rules) => rules ?? []).length;
}

import { DataplaneError } from '../error.ts';
import type { Host } from '../host.ts';
import type { IptablesMode } from '../options.ts';
import { isOlder } from '../versions.ts';
import { inTurns, legacyTables } from './legacy.ts';
import { createTool, type Tool, type ToolVersion, toolVersion } from './tool.ts';

/** The mode to use, how its commands are called, and why, in words. */
export interface Detected {
  readonly mode: IptablesMode;
  readonly suffix: string;
  readonly version: string;
  readonly reason: string;
}

/** Where iptables-restore learnt --wait, and MASQUERADE --random-fully. */
const OLDEST_VERSION = [1, 6, 2];

/** Chains that kubelet keeps in `mangle` for others to see which mode it uses; see Kubernetes KEP-3178. */
const KUBELET_CHAINS = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

/** Decides between the two modes. Two agents of one node in different modes would each miss the other's rules. */
export async function detectMode(host: Host, wanted: IptablesMode | 'auto'): Promise<Detected> {
  if (wanted !== 'auto') {
    const command = await findCommand(host, wanted);
    if (command === undefined) throw notInstalled(`mode ${wanted}`);
    return found(command, wanted, 'set by --iptables-mode');
  }

  // Asked at once, to be quick; but where nft mode decides, a legacy command that is broken does no harm.
  const asked = findCommand(host, 'legacy');
  asked.catch(() => {});
  const nft = await findCommand(host, 'nft');
  if (nft === undefined) {
    const legacy = await asked;
    if (legacy === undefined) throw notInstalled('either mode');
    return found(legacy, 'legacy', 'iptables-nft is not installed');
  }
  const nftTool = createTool(host, 'IPv4', nft.suffix);
  try {
    const nftChain = await kubeletChain(nftTool);
    if (nftChain !== undefined) return found(nft, 'nft', `kubelet keeps ${nftChain} in this mode`);
  } catch (error) {
    return withoutNft(host, await asked, error);
  }

  const legacy = await asked;
  if (legacy === undefined) return found(nft, 'nft', 'iptables-legacy is not installed');
  // Asking iptables-legacy would load its kernel modules; this file tells whether anybody has used it.
  if ((await legacyTables(host, 'IPv4'))?.length === 0) return found(nft, 'nft', 'no legacy table is in use');
  const legacyTool = createTool(inTurns(host, 'legacy'), 'IPv4', legacy.suffix);
  const legacyChain = await kubeletChain(legacyTool);
  if (legacyChain !== undefined) return found(legacy, 'legacy', `kubelet keeps ${legacyChain} in this mode`);

  const [nftRules, legacyRules] = await Promise.all([builtInRules(nftTool), builtInRules(legacyTool)]);
  const counts = `built-in nat chains hold ${nftRules.length} rules in nft mode, ${legacyRules.length} in legacy mode`;
  return legacyRules.length > nftRules.length ? found(legacy, 'legacy', counts) : found(nft, 'nft', counts);
}

/** A kernel without nf_tables may still have the older API; where that refuses too, its error is the one to read. */
async function withoutNft(host: Host, legacy: Command | undefined, error: unknown): Promise<Detected> {
  const isFinal = !(error instanceof DataplaneError) || error.isRetryable || error.failure === 'denied';
  if (isFinal || legacy === undefined) throw error;
  await createTool(host, 'IPv4', legacy.suffix).list('POSTROUTING');
  return found(legacy, 'legacy', `nft mode does not work here: ${error.message}`);
}

/** How the commands of a mode are called. */
export interface Command extends ToolVersion {
  /** What stands behind `iptables` or `ip6tables`. */
  readonly suffix: string;
}

function notInstalled(modes: string): DataplaneError {
  const remedy = 'install iptables 1.8 or newer, or use an image that has it';
  return new DataplaneError('missing', `no iptables of ${modes} is installed`, remedy);
}

/** The command named after the mode, else the plain one where it is of that mode. */
export async function findCommand(host: Host, mode: IptablesMode): Promise<Command | undefined> {
  for (const suffix of [`-${mode}`, '']) {
    const version = await toolVersion(host, `iptables${suffix}`);
    if (version?.mode === mode) return { ...version, suffix };
  }
  return undefined;
}

function found({ suffix, version }: Command, mode: IptablesMode, reason: string): Detected {
  if (isOlder(version, OLDEST_VERSION)) {
    const oldest = OLDEST_VERSION.join('.');
    throw new DataplaneError(
      'missing',
      `iptables ${version} is too old`,
      `install iptables ${oldest} or newer`,
    );
  }
  return { mode, suffix, version, reason };
}

async function kubeletChain(tool: Tool): Promise<string | undefined> {
  const present = await Promise.all(KUBELET_CHAINS.map((chain) => tool.has('mangle', chain)));
  return KUBELET_CHAINS.find((_, index) => present[index]);
}

/** The rules in the chains of `nat` that every packet meets, without those that these lead to, as `iptables -S` prints them. */
export async function builtInRules(tool: Tool): Promise<readonly string[]> {
  const names = ['PREROUTING', 'OUTPUT', 'POSTROUTING'];
  const chains = await Promise.all(
    names.map(async (chain) => (await tool.list(chain))?.map((spec) => `-A ${chain} ${spec}`) ?? []),
  );
  return chains.flat();
}

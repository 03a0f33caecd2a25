import type { MergedConfig } from '../../lib/config/config.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import type { Host } from '../../lib/dataplane/host.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import type { RuleOptions } from '../../lib/dataplane/options.ts';
import { compilePolicy } from '../../lib/policy/policy.ts';
import { DEFAULTS, FAMILIES } from '../kernel/support.ts';
import { createBox } from '../lab/box.ts';
import { startHost } from '../lab/host.ts';
import { createNetwork } from '../lab/network.ts';
import { owning } from '../lab/owning.ts';
import { IS_ROOT } from '../lab/user.ts';
import { mergedOf } from '../unit/config/support.ts';

/** A way to bring a policy into the kernel. */
export interface DataplaneKind {
  readonly name: string;
  /** What makes the agent use it. */
  readonly flags: readonly string[];
  readonly open: (options: RuleOptions, host: Host) => Promise<Dataplane>;
}

const NFT_MODE: DataplaneKind = {
  name: 'iptables-nft',
  flags: ['--backend=iptables', '--iptables-mode=nft'],
  open: (options, host) => openIptables({ mode: 'nft', ...options }, host),
};

const LEGACY_MODE: DataplaneKind = {
  name: 'iptables-legacy',
  flags: ['--backend=iptables', '--iptables-mode=legacy'],
  open: (options, host) => openIptables({ mode: 'legacy', ...options }, host),
};

export const NFTABLES: DataplaneKind = {
  name: 'nftables',
  flags: ['--backend=nftables'],
  open: async (...values) => openNftables(...values),
};

export const DATAPLANES: readonly [DataplaneKind, ...DataplaneKind[]] = [NFT_MODE, LEGACY_MODE, NFTABLES];
/** Each `--backend`, for what does not depend on the mode of iptables. */
export const BACKENDS: readonly DataplaneKind[] = [NFT_MODE, NFTABLES];

async function whyNoLab(): Promise<string | false> {
  try {
    for (const kind of DATAPLANES) {
      await using lab = await createPacketLab(kind);
      await sync(lab.dataplane, configOf('{}'));
    }
    return false;
  } catch (error) {
    return `without root no packet lab is to be had: ${error instanceof Error ? error.message : error}`;
  }
}

/** A pod, a node with one dataplane, and an outside that sees where packets come from. */
export const createPacketLab = (kind: DataplaneKind, options: Partial<RuleOptions> = {}) =>
  owning(async (stack) => {
    const node = stack.use(await createBox());
    const network = stack.use(await createNetwork(node));
    const host = stack.use(await startHost(node));
    const dataplane = await openDataplane(kind, host, options);
    return { network, host, dataplane };
  });

export type PacketLab = Awaited<ReturnType<typeof createPacketLab>>;

export function openDataplane(
  kind: DataplaneKind,
  host: Host,
  options: Partial<RuleOptions> = {},
): Promise<Dataplane> {
  return kind.open({ ...DEFAULTS, ...options }, host);
}

/** Makes the kernel hold the policies of both families. */
export async function sync(dataplane: Dataplane, config: MergedConfig): Promise<void> {
  for (const family of FAMILIES) {
    const plan = (await dataplane.observe(family)).plan(compilePolicy(config, family));
    await plan?.apply();
  }
}

/** Makes the kernel hold no rules of the agent. */
export async function remove(dataplane: Dataplane): Promise<void> {
  for (const family of FAMILIES) {
    const plan = (await dataplane.observe(family)).planRemoval();
    await plan?.apply();
  }
}

/** The config of one config file. */
export function configOf(text: string): MergedConfig {
  return mergedOf({ 'ip-masq-test': text });
}

/**
 * Why there can be no lab; false where there can. Some kernels let only root make namespaces or rules: then it is
 * said that the tests are skipped. For root nothing is: there they fail.
 */
export const NO_LAB = IS_ROOT ? false : await whyNoLab();

import type { Policy } from '../policy/policy.ts';
import type { Dataplane, Installed } from './dataplane.ts';
import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';
import { renderChain } from './iptables/chain.ts';
import { installedIptables, openIptables } from './iptables/iptables.ts';
import { openNftables } from './nftables/nftables.ts';
import { renderTable } from './nftables/table.ts';
import type { DataplaneOptions } from './options.ts';

/**
 * The dataplane to use.
 *
 * @throws {DataplaneError} if its tools are not installed, or fail
 */
export function openDataplane(options: DataplaneOptions, host: Host): Promise<Dataplane> {
  switch (options.backend) {
    case 'iptables':
      return openIptables(options, host);
    case 'nftables':
      return openNftables(options, host);
  }
}

/** How many rules, or elements of sets, hold the policy in the kernel. */
export function ruleCount(policy: Policy, options: DataplaneOptions): number {
  switch (options.backend) {
    case 'iptables':
      return renderChain(policy, options).length;
    case 'nftables':
      return renderTable(policy, options).elements.size;
  }
}

/**
 * All installed dataplanes: an earlier run may have used another one, or another mode.
 *
 * @throws {DataplaneError} if there is none
 */
export async function installedDataplanes(
  options: DataplaneOptions,
  host: Host,
): Promise<readonly Installed[]> {
  const installed = [...(await installedIptables(options, host))];
  try {
    installed.push({ dataplane: await openNftables(options, host), families: ['IPv4', 'IPv6'] });
  } catch (error) {
    if (!(error instanceof DataplaneError) || error.failure !== 'missing') throw error;
  }
  if (installed.length > 0) return installed;
  const remedy = 'install iptables or nftables, or use an image that has them';
  throw new DataplaneError('missing', 'neither iptables nor nft is installed', remedy);
}

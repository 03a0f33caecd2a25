import type { Policy } from '../policy/policy.ts';
import type { Dataplane, Place } from './dataplane.ts';
import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';
import { renderChain } from './iptables/chain.ts';
import { iptablesPlaces, openIptables } from './iptables/iptables.ts';
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
 * All places where rules of the agent can be: an earlier run may have used another dataplane, mode or family.
 *
 * @throws {DataplaneError} if no dataplane is installed
 */
export async function listPlaces(options: DataplaneOptions, host: Host): Promise<readonly Place[]> {
  const installed: (readonly Place[])[] = [];
  for (const list of [
    () => iptablesPlaces('nft', options, host),
    () => iptablesPlaces('legacy', options, host),
    () => nftablesPlaces(options, host),
  ]) {
    try {
      installed.push(await list());
    } catch (error) {
      if (!(error instanceof DataplaneError) || error.failure !== 'missing') throw error;
    }
  }
  if (installed.length > 0) return installed.flat();
  const remedy = 'install iptables or nftables, or use an image that has them';
  throw new DataplaneError('missing', 'neither iptables nor nft is installed', remedy);
}

async function nftablesPlaces(options: DataplaneOptions, host: Host): Promise<readonly Place[]> {
  const dataplane = await openNftables(options, host);
  return [
    { dataplane, family: 'IPv4' },
    { dataplane, family: 'IPv6' },
  ];
}

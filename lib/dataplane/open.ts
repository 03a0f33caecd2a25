import type { Family } from '../cidr/address.ts';
import type { Dataplane } from './dataplane.ts';
import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';
import { installedIptables } from './iptables/installed.ts';
import { openIptables } from './iptables/iptables.ts';
import type { IptablesOptions } from './iptables/options.ts';
import { openNftables } from './nftables/nftables.ts';

/** What the command line decides about the rules in the kernel. */
export interface DataplaneOptions extends IptablesOptions {
  readonly backend: 'iptables' | 'nftables';
}

/**
 * The dataplane to use.
 *
 * @throws {DataplaneError} where its tools are not installed, or refuse
 */
export function openDataplane(options: DataplaneOptions, host: Host): Promise<Dataplane> {
  switch (options.backend) {
    case 'iptables':
      return openIptables(options, host);
    case 'nftables':
      return openNftables(options, host);
  }
}

/** A dataplane that the machine has, and the families in which it can hold rules of ours. */
export interface Place {
  readonly dataplane: Dataplane;
  readonly families: readonly Family[];
}

/**
 * Every dataplane of the machine: an earlier run may have used another one, or another mode.
 *
 * @throws {DataplaneError} where there is none
 */
export async function openPlaces(options: DataplaneOptions, host: Host): Promise<readonly Place[]> {
  const places: Place[] = [...(await installedIptables(options, host))];
  try {
    places.push({ dataplane: await openNftables(options, host), families: ['IPv4', 'IPv6'] });
  } catch (error) {
    if (!(error instanceof DataplaneError) || error.failure !== 'missing') throw error;
  }
  if (places.length > 0) return places;
  const remedy = 'install iptables or nftables, or use an image that has them';
  throw new DataplaneError('missing', 'neither iptables nor nft is installed', remedy);
}

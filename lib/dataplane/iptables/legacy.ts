import type { Family } from '../../cidr/address.ts';
import type { Host } from '../host.ts';

/** Files that tell which tables of the legacy mode are in use. To ask iptables-legacy itself would load its modules. */
const TABLES: Readonly<Record<Family, string>> = {
  IPv4: '/proc/net/ip_tables_names',
  IPv6: '/proc/net/ip6_tables_names',
};

/** Whether `nat` of the legacy mode is in use; undefined where the kernel tells root only. */
export async function usesLegacyNat(host: Host, family: Family): Promise<boolean | undefined> {
  const tables = await host.readText(TABLES[family]);
  return tables?.split('\n').includes('nat');
}

import type { Family } from '../../cidr/address.ts';
import type { Host } from '../host.ts';

/** Files that tell which tables of the legacy mode are in use. To ask iptables-legacy itself would load its modules. */
const TABLES: Readonly<Record<Family, string>> = {
  IPv4: '/proc/net/ip_tables_names',
  IPv6: '/proc/net/ip6_tables_names',
};

/** The tables of the legacy mode that are in use; undefined where the kernel tells root only. */
export async function legacyTables(host: Host, family: Family): Promise<readonly string[] | undefined> {
  return (await host.readText(TABLES[family]))?.split('\n').filter((name) => name !== '');
}

/** Whether `nat` is one of them; undefined where the kernel tells root only. */
export async function usesLegacyNat(host: Host, family: Family): Promise<boolean | undefined> {
  return (await legacyTables(host, family))?.includes('nat');
}

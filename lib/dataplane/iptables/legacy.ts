import type { Family } from '../../cidr/address.ts';
import type { Host } from '../host.ts';
import type { IptablesMode } from '../options.ts';

/** Files that list the tables of the legacy mode that are in use. Running iptables-legacy would load its modules. */
const TABLES: Readonly<Record<Family, string>> = {
  IPv4: '/proc/net/ip_tables_names',
  IPv6: '/proc/net/ip6_tables_names',
};

/** The tables of the legacy mode that are in use; undefined if only root may read the file. */
export async function legacyTables(host: Host, family: Family): Promise<readonly string[] | undefined> {
  return (await host.readText(TABLES[family]))?.split('\n').filter((name) => name !== '');
}

/** Whether `nat` of the legacy mode is in use; undefined if only root may read the file. */
export async function usesLegacyNat(host: Host, family: Family): Promise<boolean | undefined> {
  return (await legacyTables(host, family))?.includes('nat');
}

/**
 * The host for the tools of a mode. Those of the legacy mode run one after the other: each holds the xtables lock while it
 * reads the whole table (hundreds of ms with 100,000 rules), and a tool that waits for it too long fails.
 */
export function inTurns(host: Host, mode: IptablesMode): Host {
  if (mode === 'nft') return host;
  return {
    run(...command) {
      const result = lastRun.then(() => host.run(...command));
      lastRun = result.catch(() => {});
      return result;
    },
    readText: (path) => host.readText(path),
  };
}

/** There is one queue for all hosts, because the machine has one lock. */
let lastRun: Promise<unknown> = Promise.resolve();

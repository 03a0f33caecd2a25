import type { Family } from '../../cidr/address.ts';
import type { Host } from '../host.ts';
import type { IptablesMode } from '../options.ts';

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

/**
 * The host as the tools of a mode are to be run. Those of the legacy mode take turns, whoever in this process runs
 * them: each reads the whole table under the xtables lock, for hundreds of milliseconds on a node with 100,000 rules.
 * Of several at once the last would find the lock busy for longer than it waits, at every attempt.
 */
export function inTurns(host: Host, mode: IptablesMode): Host {
  if (mode === 'nft') return host;
  const queue = queues.get(host) ?? createQueue(host);
  queues.set(host, queue);
  return queue;
}

/** One for each machine, as there is one lock. */
const queues = new WeakMap<Host, Host>();

function createQueue(host: Host): Host {
  let last: Promise<unknown> = Promise.resolve();
  return {
    run(file, args, input) {
      const result = last.then(() => host.run(file, args, input));
      last = result.catch(() => {});
      return result;
    },
    readText: (path) => host.readText(path),
  };
}

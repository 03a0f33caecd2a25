import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';

/** Whether a version such as `1.8.9` is older than the given numbers. */
export function isOlder(version: string, than: readonly number[]): boolean {
  const parts = version.split('.').map(Number);
  const index = than.findIndex((part, position) => part !== (parts[position] ?? 0));
  return index !== -1 && (parts[index] ?? 0) < (than[index] ?? 0);
}

interface InstalledTool {
  readonly name: string;
  /** The version that it prints, such as `1.8.9 (nf_tables)`; null if it is not installed or prints none. */
  readonly version: string | null;
}

const TOOLS = [
  'iptables',
  'iptables-nft',
  'iptables-legacy',
  'ip6tables',
  'ip6tables-nft',
  'ip6tables-legacy',
] as const;

/** Every program that a dataplane may run. */
export function installedTools(host: Host): Promise<readonly InstalledTool[]> {
  return Promise.all(TOOLS.map(async (name) => ({ name, version: await versionOf(host, name) })));
}

async function versionOf(host: Host, name: string): Promise<string | null> {
  try {
    const { stdout } = await host.run(name, ['--version']);
    return /v(\d\S*(?: \((?:nf_tables|legacy)\))?)/.exec(stdout)?.[1] ?? null;
  } catch (error) {
    if (error instanceof DataplaneError) return null;
    throw error;
  }
}

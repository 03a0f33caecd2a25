import { DataplaneError } from './error.ts';
import type { Host } from './host.ts';

/** A program that a dataplane runs. */
export interface InstalledTool {
  readonly name: string;
  /** What it says of itself, such as `1.8.9 (nf_tables)`; null where it is not installed or does not say. */
  readonly version: string | null;
}

const TOOLS = [
  'iptables',
  'iptables-nft',
  'iptables-legacy',
  'ip6tables',
  'ip6tables-nft',
  'ip6tables-legacy',
  'nft',
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

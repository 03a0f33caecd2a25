/** Run as a program, it says why a local cluster is not to be had here, and fails. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { toolEnvironment } from './environment.ts';
import { goVersion } from './go.ts';
import { PLUGIN_DIRECTORIES } from './worker.ts';

/** Debian's packages, and a program of each. */
const PACKAGES = {
  containerd: 'containerd',
  runc: 'runc',
  openssl: 'openssl',
  'iptables-nft': 'iptables',
  nft: 'nftables',
  ip: 'iproute2',
  nsenter: 'util-linux',
  setpriv: 'util-linux',
} as const;

/** @throws {Error} that says what a local cluster needs here and has not */
export function checkRequirements(): void {
  if (process.getuid?.() !== 0)
    throw new Error('a local cluster needs root: run this as root, or set KUBECONFIG to use another cluster');
  const path = (toolEnvironment()['PATH'] ?? '').split(':');
  const missing: string[] = Object.entries(PACKAGES).flatMap(([program, name]) =>
    path.some((directory) => existsSync(join(directory, program))) ? [] : [name],
  );
  if (!PLUGIN_DIRECTORIES.some((directory) => existsSync(join(directory, 'bridge'))))
    missing.push('containernetworking-plugins');
  if (missing.length > 0)
    throw new Error(
      `a local cluster needs packages that are missing; on Debian: apt-get install ${missing.join(' ')}`,
    );
}

if (import.meta.main)
  try {
    checkRequirements();
    await goVersion();
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }

import type { Host } from '../dataplane/host.ts';

/** Numbers of capabilities that the tools need; see capabilities(7) and linux/capability.h. */
const NEEDED = { NET_ADMIN: 12n, NET_RAW: 13n } as const;

/** The capabilities that the tools need and this process lacks; none where nobody can tell. */
export async function missingCapabilities(host: Host): Promise<readonly string[]> {
  const status = (await host.readText('/proc/self/status')) ?? '';
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  if (effective === undefined) return [];
  const mask = BigInt(`0x${effective}`);
  return Object.entries(NEEDED)
    .filter(([, bit]) => ((mask >> bit) & 1n) === 0n)
    .map(([name]) => name);
}

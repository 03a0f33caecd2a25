import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Network } from './network.ts';
import { succeed } from './run.ts';

/** The discard protocol. */
const PORT = 9;
const POLL_MS = 10;
const FAMILIES = [
  { set: 'seen4', type: 'ipv4_addr', ip: 'ip' },
  { set: 'seen6', type: 'ipv6_addr', ip: 'ip6' },
] as const;

/**
 * Counts the pod's packets behind all NAT of the node, and drops them there: before connection tracking keeps their flow, so that each
 * packet meets the rules like the first of a connection.
 */
const COUNTER = `
  table inet flood {
    ${FAMILIES.map(({ set, type }) => `set ${set} { type ${type} . ${type}; size 4096; flags dynamic; }`).join('\n')}
    chain behind {
      type filter hook postrouting priority 300;
      ${FAMILIES.map(({ set, ip }) => `udp dport ${PORT} update @${set} { ${ip} daddr . ${ip} saddr counter } drop`).join('\n')}
    }
  }
`;

/** Packets of the pod that never stop; they have arrived at each destination when it resolves. */
export async function startFlood({ node, pod }: Network, destinations: readonly string[]) {
  const nft = (...args: readonly string[]) => succeed(node.run('nft', args));
  await succeed(node.run('nft', ['-f', '-'], { input: COUNTER }));
  const script = fileURLToPath(new URL('flood.pl', import.meta.url));
  const child = pod.spawn('perl', [script, `${PORT}`, ...destinations], { stdio: 'inherit' });
  await once(child, 'spawn');
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  const arrivals = async () => {
    const listings = await Promise.all(FAMILIES.map(({ set }) => nft('list', 'set', 'inet', 'flood', set)));
    return new Map(
      Array.from(listings.join('').matchAll(ELEMENT), ([, destination, source, packets]) => [
        `${destination} ${source}`,
        Number(packets),
      ]),
    );
  };
  while ((await arrivals()).size < destinations.length) await delay(POLL_MS);
  return {
    /** Ends the flood; how many packets arrived, by `DESTINATION SOURCE`. */
    async arrivals(): Promise<ReadonlyMap<string, number>> {
      await stop();
      return await arrivals();
    },
    async [Symbol.asyncDispose]() {
      await stop();
      await nft('delete', 'table', 'inet', 'flood');
    },
  };
}

const ELEMENT = /([\da-f.:]+) \. ([\da-f.:]+) counter packets (\d+)/g;

import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Box } from './box.ts';
import { succeed } from './run.ts';

const SCRIPT = fileURLToPath(new URL('icmp.pl', import.meta.url));
const ATTEMPTS = 20;
const PAUSE_MS = 10;

/** Notes destination and source of echo requests, before anything in the box looks at them. */
const WITNESS = `
  table inet pings {
    set seen4 { type ipv4_addr . ipv4_addr; size 4096; flags dynamic; }
    set seen6 { type ipv6_addr . ipv6_addr; size 4096; flags dynamic; }
    chain arriving {
      type filter hook prerouting priority raw;
      icmp type echo-request update @seen4 { ip daddr . ip saddr }
      icmpv6 type echo-request update @seen6 { ip6 daddr . ip6 saddr }
    }
  }
`;
const ELEMENT = /([\da-f.:]+) \. ([\da-f.:]+)/g;

/** Sends each destination an ICMP echo request; by destination, the source that each had on arrival in the other box. */
export async function sourcesOfPings(
  from: Box,
  to: Box,
  destinations: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  await succeed(to.run('nft', ['-f', '-'], { input: WITNESS }));
  let missing = destinations;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    await succeed(from.run('perl', [SCRIPT], { input: missing.map((one) => `${one}\n`).join('') }));
    await delay(PAUSE_MS);
    const listing = await succeed(to.run('nft', ['list', 'table', 'inet', 'pings']));
    const seen = new Map(
      Array.from(listing.matchAll(ELEMENT), ([, destination = '', source = '']) => [destination, source]),
    );
    missing = destinations.filter((one) => !seen.has(one));
    if (missing.length === 0) return seen;
  }
  throw new Error(`no ping to ${missing} arrives`);
}

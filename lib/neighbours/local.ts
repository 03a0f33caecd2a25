import type { Address } from '../cidr/address.ts';
import { parsePrefix } from '../cidr/prefix.ts';
import { isIn, rangeOf } from '../cidr/ranges.ts';
import type { Host } from '../dataplane/host.ts';

/** Whether the address is one of the node itself, to which packets never meet our rules. */
export async function isLocal(host: Host, address: Address): Promise<boolean> {
  const prefixes = address.family === 'IPv4' ? await localIPv4(host) : await localIPv6(host);
  return prefixes.some((text) => {
    const parsed = parsePrefix(text);
    if ('error' in parsed) return false;
    return isIn(address.value, rangeOf(parsed.prefix));
  });
}

/** What the routing tables call LOCAL, as `addrtype --dst-type LOCAL` of iptables-extensions(8) does. */
async function localIPv4(host: Host): Promise<readonly string[]> {
  const trie = (await host.readText('/proc/net/fib_trie')) ?? '';
  return Array.from(
    trie.matchAll(/\|-- (\S+)\n\s+\/(\d+) host LOCAL/g),
    ([, address, length]) => `${address}/${length}`,
  );
}

async function localIPv6(host: Host): Promise<readonly string[]> {
  const interfaces = (await host.readText('/proc/net/if_inet6')) ?? '';
  return Array.from(interfaces.matchAll(/^([0-9a-f]{32}) /gm), ([, digits = '']) => {
    return `${digits.replace(/(.{4})(?=.)/g, '$1:')}/128`;
  });
}

import { ADDRESS_BITS, type Address, type Family } from '../../lib/cidr/address.ts';
import { covers, type Prefix, parsePrefix, prefixAt } from '../../lib/cidr/prefix.ts';
import { rangeOf } from '../../lib/cidr/ranges.ts';
import { POD_NETWORK, UPLINK_NETWORK } from '../lab/network.ts';
import type { Random } from './random.ts';

/** What no packet from a pod through its node to the outside can have for a destination, and why. */
const UNREACHABLE: Readonly<Record<Family, readonly Prefix[]>> = {
  IPv4: [
    prefix('0.0.0.0/8'), // "this network", no destination (RFC 1122 section 3.2.1.3)
    prefix('127.0.0.0/8'), // loopback, never on a wire (the same)
    prefix('224.0.0.0/4'), // multicast: routed by other rules (RFC 5771)
    prefix('255.255.255.255/32'), // limited broadcast, never forwarded (RFC 919)
    // What is on the links of the lab itself: the pod, the node, and neighbours that are not there.
    prefix(POD_NETWORK.IPv4),
    prefix(UPLINK_NETWORK.IPv4),
  ],
  IPv6: [
    prefix('::/127'), // unspecified and loopback (RFC 4291 sections 2.5.2 and 2.5.3)
    prefix('fe80::/10'), // link-local: routers must not forward it (RFC 4291 section 2.5.6)
    prefix('ff00::/8'), // multicast (RFC 4291 section 2.7)
    prefix(POD_NETWORK.IPv6),
    prefix(UPLINK_NETWORK.IPv6),
  ],
};

/** Stands for an IPv4 address (RFC 4291 section 2.5.5.2): the kernel sends IPv4. No prefix of a config can lie there. */
const IPV4_MAPPED = 0xffffn << 32n;

/** Whether a packet of the pod to that address goes through the node and arrives outside. */
function isSendable({ family, value }: Address): boolean {
  if (family === 'IPv6' && value >> 32n === IPV4_MAPPED >> 32n) return false;
  const host = prefixAt(family, value, ADDRESS_BITS[family]);
  return !UNREACHABLE[family].some((range) => covers(range, host));
}

/** Both ends of every prefix, their neighbours outside of it, and some in it; and a few anywhere. */
export function addressesNear(
  random: Random,
  family: Family,
  prefixes: readonly Prefix[],
): readonly Address[] {
  const bits = ADDRESS_BITS[family];
  const near = prefixes.flatMap((prefix) => {
    const { first, last } = rangeOf(prefix);
    const inside = prefix.address | random.bits(bits - prefix.length);
    return [first - 1n, first, inside, last, last + 1n];
  });
  const anywhere = [random.bits(bits), random.bits(bits)];
  const values = new Set([...near, ...anywhere].filter((value) => value === BigInt.asUintN(bits, value)));
  return Array.from(values, (value) => ({ family, value })).filter(isSendable);
}

function prefix(text: string): Prefix {
  const parsed = parsePrefix(text);
  if ('error' in parsed) throw new Error(`${text} ${parsed.error.message}`);
  return parsed.prefix;
}

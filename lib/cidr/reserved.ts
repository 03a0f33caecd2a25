import type { Family } from './address.ts';
import { type Prefix, parsePrefix } from './prefix.ts';

interface ReservedRange {
  readonly prefix: Prefix;
  readonly rfc: string;
}

/** The networks that are not masqueraded if there is no config file. */
export const PRIVATE_RANGES: readonly ReservedRange[] = [
  reserved('10.0.0.0/8', 'RFC 1918'),
  reserved('172.16.0.0/12', 'RFC 1918'),
  reserved('192.168.0.0/16', 'RFC 1918'),
];

/** The networks that `--nomasq-all-reserved-ranges` adds, in the order of the Go agents. */
export const OTHER_RESERVED_RANGES: readonly ReservedRange[] = [
  reserved('100.64.0.0/10', 'RFC 6598'),
  reserved('192.0.0.0/24', 'RFC 6890'),
  reserved('192.0.2.0/24', 'RFC 5737'),
  reserved('192.88.99.0/24', 'RFC 7526'),
  reserved('198.18.0.0/15', 'RFC 6815'),
  reserved('198.51.100.0/24', 'RFC 5737'),
  reserved('203.0.113.0/24', 'RFC 5737'),
  reserved('240.0.0.0/4', 'RFC 5735'),
];

/** Addresses that no router forwards. */
export const LINK_LOCAL = {
  IPv4: reserved('169.254.0.0/16', 'RFC 3927'),
  IPv6: reserved('fe80::/10', 'RFC 4291'),
} as const;

/** Addresses of many: packets to them keep to their link, and say by their source which link it is. */
export const MULTICAST = {
  IPv4: [reserved('224.0.0.0/4', 'RFC 5771'), reserved('255.255.255.255/32', 'RFC 919')],
  IPv6: [reserved('ff00::/8', 'RFC 4291')],
} as const;

/** Addresses that no node has for others to see: packets cannot leave with them. */
export const UNUSABLE_AS_SOURCE: Readonly<Record<Family, readonly ReservedRange[]>> = {
  IPv4: [
    reserved('0.0.0.0/8', 'RFC 1122'),
    reserved('127.0.0.0/8', 'RFC 1122'),
    LINK_LOCAL.IPv4,
    ...MULTICAST.IPv4,
  ],
  // The first holds the unspecified address and loopback too.
  IPv6: [reserved('::/96', 'RFC 4291'), LINK_LOCAL.IPv6, ...MULTICAST.IPv6],
};

/** Addresses to which nobody outside has a route: of pods, packets with these get no answer. */
export const UNROUTED_RANGES: readonly ReservedRange[] = [
  ...PRIVATE_RANGES,
  reserved('100.64.0.0/10', 'RFC 6598'),
  reserved('fc00::/7', 'RFC 4193'),
];

function reserved(cidr: string, rfc: string): ReservedRange {
  const parsed = parsePrefix(cidr);
  if ('error' in parsed) throw new Error(`${cidr} ${parsed.error.message}`);
  return { prefix: parsed.prefix, rfc };
}

import { networkInterfaces } from 'node:os';
import { type Address, type Family, parseAddress } from '../cidr/address.ts';
import { isIn, rangeOf } from '../cidr/ranges.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';

/** 127.0.0.0/8, all of which is the node itself. */
const LOOPBACK = 127n;

/**
 * A function that tells whether an address is one of the node's. It knows those of links that are up and have a carrier
 * now; getifaddrs(3) in Node leaves out the others.
 */
export function ownAddresses(): (address: Address) => boolean {
  const links = Object.values(networkInterfaces()).flatMap((link) => link ?? []);
  const own = new Map<Family, Set<bigint>>();
  for (const { address } of links) {
    const parsed = parseAddress(address);
    if (parsed === undefined) continue;
    own.set(parsed.family, (own.get(parsed.family) ?? new Set()).add(parsed.value));
  }
  return ({ family, value }) =>
    own.get(family)?.has(value) === true || (family === 'IPv4' && value >> 24n === LOOPBACK);
}

/** The node's addresses with which packets can leave it: without those of loopback links, and without link-local ones. */
export function ownAddressList(): readonly Address[] {
  const links = Object.values(networkInterfaces()).flatMap((link) => link ?? []);
  return links
    .filter(({ internal }) => !internal)
    .flatMap(({ address }) => parseAddress(address) ?? [])
    .filter(({ family, value }) => !isIn(value, rangeOf(LINK_LOCAL[family].prefix)));
}

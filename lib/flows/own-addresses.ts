import { networkInterfaces } from 'node:os';
import { type Address, type Family, parseAddress } from '../cidr/address.ts';
import { isIn, rangeOf } from '../cidr/ranges.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';

/** 127.0.0.0/8, all of which is the node itself. */
const LOOPBACK = 127n;

/** The node's addresses of links that are up and have a carrier, without those of loopback and of single links. */
export function ownAddressList(): readonly Address[] {
  return interfaceAddresses().filter((address) => !isLoopback(address) && !isLinkLocal(address));
}

/**
 * A function that tells whether an address is one of the node's. It knows those of links that are up and have a carrier
 * now; getifaddrs(3) in Node leaves out the others.
 */
export function ownAddresses(): (address: Address) => boolean {
  const own = new Map<Family, Set<bigint>>();
  for (const { family, value } of interfaceAddresses())
    own.set(family, (own.get(family) ?? new Set()).add(value));
  return (address) => own.get(address.family)?.has(address.value) === true || isLoopback(address);
}

function interfaceAddresses(): readonly Address[] {
  const links = Object.values(networkInterfaces()).flatMap((link) => link ?? []);
  return links.flatMap(({ address }) => parseAddress(address) ?? []);
}

function isLoopback({ family, value }: Address): boolean {
  return family === 'IPv4' ? value >> 24n === LOOPBACK : value === 1n;
}

function isLinkLocal({ family, value }: Address): boolean {
  return isIn(value, rangeOf(LINK_LOCAL[family].prefix));
}

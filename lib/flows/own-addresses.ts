import { networkInterfaces } from 'node:os';
import { type Address, parseAddress } from '../cidr/address.ts';

/** 127.0.0.0/8, all of which is the node itself. */
const LOOPBACK = 127n;

/**
 * A function that tells whether an address is one of the node's. It knows those of links that are up and have a carrier
 * now; getifaddrs(3) in Node leaves out the others.
 */
export function ownAddresses(): (address: Address) => boolean {
  const links = Object.values(networkInterfaces()).flatMap((link) => link ?? []);
  const own = new Set(links.flatMap(({ address }) => keyOf(parseAddress(address))));
  return (address) => keyOf(address).some((key) => own.has(key)) || isLoopback(address);
}

function keyOf(address: Address | undefined): readonly bigint[] {
  if (address === undefined) return [];
  // The two families in one set: above all addresses of IPv6.
  return [address.family === 'IPv4' ? address.value + (1n << 128n) : address.value];
}

function isLoopback({ family, value }: Address): boolean {
  return family === 'IPv4' && value >> 24n === LOOPBACK;
}

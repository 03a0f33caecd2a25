import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { type Address, type Family, parseAddress } from '../cidr/address.ts';
import { isIn, rangeOf } from '../cidr/ranges.ts';
import { LINK_LOCAL } from '../cidr/reserved.ts';

/** 127.0.0.0/8, all of which is the node itself. */
const LOOPBACK = 127n;

/**
 * The node's addresses that packets can leave with, each once: those of links that are up and have a carrier, without
 * loopback and link-local ones, and without IPv6 addresses that another host may have (RFC 4862).
 */
export function ownAddressList(): readonly Address[] {
  const unsure = unsureAddresses();
  const usable = interfaceAddresses().filter(
    (address) =>
      !isLoopback(address) &&
      !isLinkLocal(address) &&
      !isCompatible(address) &&
      !(address.family === 'IPv6' && unsure.has(address.value)),
  );
  return [...new Map(usable.map((address) => [`${address.family} ${address.value}`, address])).values()];
}

/** linux/if_addr.h: the address failed the search for a duplicate, or that search goes on and it may not be used yet. */
const IFA_F = { OPTIMISTIC: 0x04, DADFAILED: 0x08, TENTATIVE: 0x40 } as const;

function unsureAddresses(): ReadonlySet<bigint> {
  const unsure = new Set<bigint>();
  for (const line of readText('/proc/net/if_inet6').split('\n')) {
    const [digits = '', , , , flags = ''] = line.split(' ');
    const bits = Number.parseInt(flags, 16);
    const isTentative = (bits & IFA_F.TENTATIVE) !== 0 && (bits & IFA_F.OPTIMISTIC) === 0;
    if (isTentative || (bits & IFA_F.DADFAILED) !== 0) unsure.add(BigInt(`0x${digits}`));
  }
  return unsure;
}

/** Empty if the kernel has no IPv6. */
function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** IPv4-compatible (RFC 4291, section 2.5.5.1), which nobody uses any more, and tools print in another way. */
function isCompatible({ family, value }: Address): boolean {
  return family === 'IPv6' && value >> 32n === 0n;
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

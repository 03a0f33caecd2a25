import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { ADDRESS_BITS, type Address, type Family, parseAddress } from '../cidr/address.ts';
import { isIn, isInSome, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { UNUSABLE } from '../cidr/reserved.ts';
import { NetlinkError } from '../netlink/error.ts';
import { type LocalRoute, localRoutes } from '../netlink/routes.ts';

/**
 * The node's addresses that packets can leave with, each once: those of links that are up and have a carrier, and those
 * that somebody has made local one by one (`ip route add local`). Without loopback and link-local ones, and without IPv6
 * addresses that another host may have (RFC 4862).
 */
export function ownAddressList(): readonly Address[] {
  const unsure = unsureAddresses();
  const added = routes()
    .filter(({ family, length, isOfLink }) => !isOfLink && length === ADDRESS_BITS[family])
    .map(({ family, address: value }) => ({ family, value }));
  const usable = [...linkAddresses(), ...added].filter(
    ({ family, value }) =>
      !UNUSABLE[family].some(({ prefix }) => isIn(value, rangeOf(prefix))) &&
      !(family === 'IPv6' && unsure.has(value)),
  );
  return [...new Map(usable.map((address) => [`${address.family} ${address.value}`, address])).values()];
}

/**
 * A function that tells whether an address is the node's own now, so that packets to it never meet the agent's rules.
 * It is, if the kernel's table `local` says so: on a link, also one without a carrier, or in a range made local as a whole.
 */
export function ownAddresses(): (address: Address) => boolean {
  const all = routes();
  const rangesOf = (family: Family) =>
    rangeSet(family, all.filter((route) => route.family === family).map(rangeOf)).ranges;
  const own = { IPv4: rangesOf('IPv4'), IPv6: rangesOf('IPv6') };
  return ({ family, value }) => isInSome(value, own[family]);
}

/** The local routes; without netlink, those of the addresses of links that are up and have a carrier. */
function routes(): readonly LocalRoute[] {
  try {
    return localRoutes();
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    const loopback = { family: 'IPv4', address: 127n << 24n, length: 8, isOfLink: true } as const;
    const others = linkAddresses().map(({ family, value: address }) => ({
      family,
      address,
      length: ADDRESS_BITS[family],
      isOfLink: true,
    }));
    return [loopback, ...others];
  }
}

/** Those of links that are up and have a carrier; getifaddrs(3) in Node leaves out the others. */
function linkAddresses(): readonly Address[] {
  const links = Object.values(networkInterfaces()).flatMap((link) => link ?? []);
  return links.flatMap(({ address }) => parseAddress(address) ?? []);
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

import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { ADDRESS_BITS, type Address, type Family, type OwnAddress, parseAddress } from '../cidr/address.ts';
import { isIn, isInSome, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { UNUSABLE_AS_SOURCE } from '../cidr/reserved.ts';
import { allAddresses, type InterfaceAddress } from '../netlink/addresses.ts';
import { kernelError, NetlinkError } from '../netlink/error.ts';
import { type LocalRoute, localRoutes } from '../netlink/routes.ts';
import { ExhaustedError, errorMessage, isExhausted, SystemError } from '../text/error.ts';

/**
 * The node's addresses that packets can leave with, each once: those of links that are up and have a carrier, and those
 * that somebody has made local one by one (`ip route add local`). Without loopback and link-local ones, and without IPv6
 * addresses that another host may have (RFC 4862).
 *
 * @throws {SystemError} if they cannot be read
 */
export function usableSourceAddresses(): readonly OwnAddress[] {
  const assigned = overNetlink(allAddresses, linkAddresses);
  const added = routes()
    .filter(({ family, length, isOfLink }) => !isOfLink && length === ADDRESS_BITS[family])
    .map(({ family, address: value }) => ({ family, value }));
  const unsure = new Set(assigned.filter(({ isUnsure }) => isUnsure).map(keyOf));
  const usable = [...linkAddresses(), ...added].filter(
    (one) =>
      !UNUSABLE_AS_SOURCE[one.family].some(({ prefix }) => isIn(one.value, rangeOf(prefix))) &&
      !unsure.has(keyOf(one)),
  );
  const ranks = ranksOf(assigned);
  const unique = new Map(usable.map(({ family, value }) => [keyOf({ family, value }), { family, value }]));
  return Array.from(unique, ([key, address]) => ({ ...address, rank: ranks.get(key) ?? RANK.noLink }));
}

function keyOf({ family, value }: Address): string {
  return `${family} ${value}`;
}

/**
 * What makes an address worse than others: each outweighs all before it together. A host address has the prefix /32 or /128. On no
 * link, but local by a route, is what load balancers forward to the node (GCE).
 */
const RANK = { host: 1, secondary: 2, deprecated: 4, noLink: 8 } as const;

/**
 * The ranks of the addresses of links, by their keys. A virtual address that comes and goes (VRRP) is mostly secondary, deprecated
 * or a host prefix; but on some clouds the only address is a host prefix. Without netlink only the prefixes are known.
 */
function ranksOf(assigned: readonly InterfaceAddress[]): ReadonlyMap<string, number> {
  const ranks = new Map<string, number>();
  for (const { family, value, length, isDeprecated, isSecondary } of assigned) {
    const rank =
      (length === ADDRESS_BITS[family] ? RANK.host : 0) +
      (isSecondary ? RANK.secondary : 0) +
      (isDeprecated ? RANK.deprecated : 0);
    const key = keyOf({ family, value });
    ranks.set(key, Math.min(rank, ranks.get(key) ?? rank));
  }
  return ranks;
}

/** What the kernel answers over netlink; without netlink, what stands in for it. A lack of files is not an answer. */
function overNetlink<Answer>(ask: () => Answer, fallback: () => Answer): Answer {
  try {
    return ask();
  } catch (error) {
    if (isExhausted(error)) throw new ExhaustedError(`${CANNOT_READ}: ${errorMessage(error)}`);
    if (!(error instanceof NetlinkError)) throw error;
    return fallback();
  }
}

const CANNOT_READ = "cannot read the node's addresses";

/**
 * A function that tells whether an address is the node's own now, so that packets to it never meet the agent's rules.
 * It is, if the kernel's table `local` says so: on a link, also one without a carrier, or in a range made local as a whole.
 *
 * @param asksKernel without it, only the addresses of links that are up are known, as without netlink
 */
export function createIsLocal(asksKernel = true): (address: Address) => boolean {
  const all = asksKernel ? routes() : routesOfLinks();
  const rangesOf = (family: Family) =>
    rangeSet(family, all.filter((route) => route.family === family).map(rangeOf)).ranges;
  const own = { IPv4: rangesOf('IPv4'), IPv6: rangesOf('IPv6') };
  return ({ family, value }) => isInSome(value, own[family]);
}

/** The local routes as a text: another one if an address has come or gone. */
export function localKey(): string {
  const keys = routes().map(({ family, address, length }) => `${family} ${address}/${length}`);
  return keys.toSorted().join();
}

/** The local routes; without netlink, those of links. */
function routes(): readonly LocalRoute[] {
  return overNetlink(localRoutes, routesOfLinks);
}

/** The local routes of the addresses of links that are up and have a carrier. */
function routesOfLinks(): readonly LocalRoute[] {
  return [
    { family: 'IPv4', address: 127n << 24n, length: 8, isOfLink: true },
    ...linkAddresses().map(({ family, value: address }) => {
      return { family, address, length: ADDRESS_BITS[family], isOfLink: true };
    }),
  ];
}

/** Those of links that are up and have a carrier; getifaddrs(3) in Node leaves out the others, and flags. */
function linkAddresses(): readonly InterfaceAddress[] {
  const links = overNetlink(interfaces, () => {
    throw new SystemError(
      `${CANNOT_READ}: a netlink socket for routes is refused; allow it (seccomp, SELinux)`,
    );
  });
  return links.flatMap(({ address, cidr }) => {
    const parsed = parseAddress(address);
    const length = Number(cidr?.split('/')[1]);
    const flags = { isGlobal: true, isDeprecated: false, isSecondary: false, isUnsure: false };
    return parsed === undefined ? [] : [{ ...parsed, network: parsed.value, link: 0, length, ...flags }];
  });
}

/** @throws {NetlinkError} */
function interfaces(): readonly NetworkInterfaceInfo[] {
  try {
    return Object.values(networkInterfaces()).flatMap((link) => link ?? []);
  } catch (error) {
    // Of the errors of getifaddrs(3), Node knows the number, but not the name.
    if (!(error instanceof Error && 'errno' in error)) throw error;
    throw kernelError(Math.abs(Number(error.errno)), 'list addresses of links');
  }
}

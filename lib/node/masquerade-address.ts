import { ADDRESS_BITS, type Address, type Family, formatAddress } from '../cidr/address.ts';
import { allAddresses, type InterfaceAddress } from '../netlink/addresses.ts';
import { allLinks } from '../netlink/links.ts';
import { RT_TABLE_MAIN, type UnicastRoute, unicastRoutes } from '../netlink/routes.ts';

/** What becomes of masqueraded packets if no link has an address for them. */
const NO_ADDRESS = {
  IPv4: ', which has no address for it: the kernel drops it',
  IPv6: ' with a link-local address, which no router forwards',
} as const;

/**
 * With which address the kernel lets a masqueraded packet leave by one of these links, in words.
 *
 * @param next of IPv4, where it goes on the link; of IPv6, its destination
 */
export function masqueradedText(links: readonly number[], next: Address, all = allAddresses()): string {
  const texts = links.flatMap((link) => {
    const one = masqueradeAddress(link, next, all);
    return one === undefined ? [] : `${formatAddress(one)}${one.link === link ? '' : ' of another link'}`;
  });
  return texts.length === 0 ? NO_ADDRESS[next.family] : ` with ${texts.join(' or ')}`;
}

/** As inet_select_addr() of the kernel for IPv4, and RFC 6724 for IPv6 choose it: one of the link, else of another one. */
function masqueradeAddress(
  link: number,
  { family, value }: Address,
  all: readonly InterfaceAddress[],
): InterfaceAddress | undefined {
  const rank = (one: InterfaceAddress) => {
    const differingBits = (one.value ^ value).toString(2).length;
    const isElsewhere = one.link === link ? 0 : 1_000;
    if (family === 'IPv6') return (one.isDeprecated ? 2_000 : 0) + isElsewhere + differingBits;
    return isElsewhere || (differingBits > ADDRESS_BITS.IPv4 - one.length ? 1 : 0);
  };
  return all
    .filter((one) => one.family === family && one.isGlobal && !one.isSecondary && !one.isUnsure)
    .toSorted((a, b) => rank(a) - rank(b) || a.link - b.link)[0];
}

/**
 * How masqueraded packets leave by default routes with an address that is not meant, in words: by that of the main table, if the
 * route is for another address; by those of other tables, to which rules of routing lead marked packets, if their link has none.
 *
 * @throws {NetlinkError}
 */
export async function unmeantSources(family: Family): Promise<readonly string[]> {
  const defaults = (await unicastRoutes([family], new Set())).filter(({ length }) => length === 0);
  const main = defaults.find(({ table }) => table === RT_TABLE_MAIN);
  const others = new Map(
    defaults.flatMap((one) => (one.table === RT_TABLE_MAIN ? [] : [[one.links[0], one]])),
  );
  const [links, all] = [await allLinks(), allAddresses()];
  return [...(main === undefined ? [] : [main]), ...others.values()].flatMap((route) => {
    const link = links.find(({ index }) => index === route.links[0]);
    return (link && unmeantSource(route, link, all)) ?? [];
  });
}

function unmeantSource(
  { family, table, gateway, source: own }: UnicastRoute,
  link: { readonly index: number; readonly name: string },
  all: readonly InterfaceAddress[],
): string | undefined {
  const next = { family, value: gateway ?? 0n };
  const found = masqueradeAddress(link.index, next, all);
  const where = table === RT_TABLE_MAIN ? '' : ` (routing table ${table})`;
  const leaves = `a masqueraded packet leaves by ${link.name}${where}${masqueradedText([link.index], next, all)}`;
  if (found === undefined) return leaves;
  if (table !== RT_TABLE_MAIN) return found.link === link.index ? undefined : leaves;
  const source = own ?? found.value;
  const isOfLink = all.some((one) => one.link === link.index && one.value === source);
  // Of the addresses of IPv6 of other links, the destination decides which one it is.
  const isUnknown = family === 'IPv6' && found.link !== link.index;
  if (found.value === source || isOfLink || isUnknown) return undefined;
  return `${leaves}, one that the node itself sends with ${formatAddress({ family, value: source })}`;
}

import { networkInterfaces } from 'node:os';
import { type Address, formatAddress } from '../cidr/address.ts';
import { isIn, parseRange } from '../cidr/ranges.ts';
import { NetlinkError } from '../netlink/error.ts';
import { allLinks } from '../netlink/links.ts';
import { RT_TABLE_MAIN, routeTo } from '../netlink/routes.ts';

/**
 * How packets from one address to another leave the node, in words: the kernel routes them as those that come in from where
 * the source is.
 *
 * @param as the address that they get; `link` for one of the link, as masquerading gives it; undefined if they keep theirs
 */
export async function egressText(to: Address, from: Address, as: string | undefined): Promise<string> {
  try {
    const links = new Map((await allLinks()).map(({ index, name }) => [index, name]));
    const comesBy = (await routeTo(to.family, from.value))?.links[0] ?? 0;
    // What the node itself sends comes in by no link.
    const link = links.get(comesBy) === 'lo' ? 0 : comesBy;
    const route = await routeTo(to.family, to.value, { address: from.value, link });
    const name = links.get(route?.links[0] ?? 0) ?? 'an unknown link';
    const gateway = route?.gateway === undefined ? to : { family: to.family, value: route.gateway };
    const table = route?.table === RT_TABLE_MAIN ? '' : ` (routing table ${route?.table})`;
    const by = `leaves by ${name}${gateway === to ? '' : ` through ${formatAddress(gateway)}`}${table}`;
    const address = as === 'link' ? addressOf(name, gateway) : as;
    if (as === undefined) return by;
    return address === undefined
      ? `${by}, which has no address for it: the kernel drops it`
      : `${by} with ${address}`;
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    return `the kernel has no route for such packets: ${error.message}`;
  }
}

/** The address that the kernel takes for packets that leave by a link: the first in the network of the gateway, else the first. */
function addressOf(link: string, { family, value }: Address): string | undefined {
  const usable = (networkInterfaces()[link] ?? []).filter(
    (one) => one.family === family && !one.address.startsWith('fe80:'),
  );
  const isNear = (cidr: string | null) => {
    const range = parseRange(cidr ?? '');
    return range !== undefined && isIn(value, range);
  };
  return (usable.find(({ cidr }) => isNear(cidr)) ?? usable[0])?.address;
}

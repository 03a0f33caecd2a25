import { networkInterfaces } from 'node:os';
import { type Address, formatAddress } from '../cidr/address.ts';
import { isIn, parseRange } from '../cidr/ranges.ts';
import { NetlinkError } from '../netlink/error.ts';
import { allLinks } from '../netlink/links.ts';
import { RT_TABLE_MAIN, routeTo, routingMarks, type UnicastRoute } from '../netlink/routes.ts';

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
    const wayOf = (route: UnicastRoute | undefined) => {
      const name = links.get(route?.links[0] ?? 0) ?? 'an unknown link';
      const gateway = route?.gateway === undefined ? to : { family: to.family, value: route.gateway };
      const table = route?.table === RT_TABLE_MAIN ? '' : ` (routing table ${route?.table})`;
      const through = gateway === to ? '' : ` through ${formatAddress(gateway)}`;
      return { name, gateway, by: `by ${name}${through}`, table };
    };
    const source = { address: from.value, link };
    const { name, gateway, by, table } = wayOf(await routeTo(to.family, to.value, source));
    const others: string[] = [];
    for (const { mark, mask } of (await routingMarks(to.family)).slice(0, MOST_MARKS)) {
      const other = await routeTo(to.family, to.value, { ...source, mark })
        .then(wayOf)
        .catch(noWay);
      if (mark !== 0 && other.by !== by)
        others.push(`, but with the mark ${hex(mark)}/${hex(mask)} ${other.by}${other.table}`);
    }
    const address = as === 'link' ? addressOf(name, gateway) : as;
    const leaves = `leaves ${by}${table}`;
    if (as === undefined) return `${leaves}${others.join('')}`;
    return address === undefined
      ? `${leaves}, which has no address for it: the kernel drops it${others.join('')}`
      : `${leaves} with ${address}${others.join('')}`;
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    return `the kernel has no route for such packets: ${error.message}`;
  }
}

/** Rules of routing that ask for marks: those of all known programs together are fewer. */
const MOST_MARKS = 16;

function noWay(error: unknown): { readonly by: string; readonly table: string } {
  if (!(error instanceof NetlinkError)) throw error;
  return { by: 'nowhere', table: '' };
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
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

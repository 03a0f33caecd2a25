import { type Address, formatAddress } from '../cidr/address.ts';
import { NetlinkError } from '../netlink/error.ts';
import { allLinks } from '../netlink/links.ts';
import { RT_TABLE_MAIN, routeTo, routingMarks, type UnicastRoute } from '../netlink/routes.ts';
import { masqueradedText } from './masquerade-address.ts';

/**
 * How packets from one address to another leave the node, or why they do not, in words: the kernel routes them as those that come in from where the source is.
 *
 * @param source.isOwn whether the node itself sends them: they come in by no link
 * @param source.as the address that they get; `link` for one of the link, as masquerading gives it; undefined if they keep theirs
 */
export async function egressOf(
  to: Address,
  from: Address,
  { as, isOwn }: { readonly as: string | undefined; readonly isOwn: boolean },
): Promise<string> {
  try {
    const links = new Map((await allLinks()).map(({ index, name }) => [index, name]));
    // Of an address of the node, the route names the link that has it.
    const link = isOwn ? 0 : ((await routeTo(to.family, from.value))?.links[0] ?? 0);
    const pathOf = (route: UnicastRoute | undefined): Path => {
      const names = (route?.links ?? []).map((index) => links.get(index) ?? UNKNOWN_LINK);
      const gateway = route?.gateway === undefined ? to : { family: to.family, value: route.gateway };
      const table = route?.table === RT_TABLE_MAIN ? '' : ` (routing table ${route?.table})`;
      const through = gateway === to ? '' : ` through ${formatAddress(gateway)}`;
      const all = names.length === 0 ? [UNKNOWN_LINK] : names;
      const indices = route?.links ?? [];
      return { indices, gateway, by: `by ${all.join(' or ')}${through}`, table };
    };
    const source = { address: from.value, link };
    const path = pathOf(await routeTo(to.family, to.value, source));
    const { indices, gateway, by, table } = path;
    const marks = await routingMarks(to.family);
    const others: string[] = [];
    for (const { mark, mask } of marks.slice(0, MOST_MARKS)) {
      const other = await routeTo(to.family, to.value, { ...source, mark })
        .then(pathOf)
        .catch(noPath);
      if (mark === 0 || other.by === by) continue;
      others.push(`, but with the mark ${hex(mark)}/${hex(mask)} ${other.by}${other.table}`);
    }
    const masqueraded = () => masqueradedText(indices, to.family === 'IPv4' ? gateway : to);
    const address = as === undefined ? '' : as === 'link' ? masqueraded() : ` with ${as}`;
    return `leaves ${by}${table}${address}${others.join('')}`;
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    return `the kernel has no route for such packets: ${error.message}`;
  }
}

/** One path of packets, or several of one route. */
interface Path {
  readonly indices: readonly number[];
  readonly gateway: Address;
  /** In words. */
  readonly by: string;
  readonly table: string;
}

const UNKNOWN_LINK = 'an unknown link';

/** Rules of routing that ask for marks: those of all known programs together are fewer. */
const MOST_MARKS = 16;

function noPath(error: unknown): Pick<Path, 'by' | 'table'> {
  if (!(error instanceof NetlinkError)) throw error;
  return { by: 'nowhere', table: '' };
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

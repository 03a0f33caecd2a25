import { type Address, formatAddress } from '../cidr/address.ts';
import { NetlinkError } from '../netlink/error.ts';
import { allLinks } from '../netlink/links.ts';
import { RT_TABLE_MAIN, routeTo, routingMarks, type UnicastRoute } from '../netlink/routes.ts';
import { masqueradedText } from './masquerade-address.ts';

/**
 * How packets from one address to another leave the node, or why they do not, in words: the kernel routes them as those that come in
 * from where the source is.
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
    const routeOf = (mark: number) => routeTo(to.family, to.value, { address: from.value, link, mark });
    const addressOf = async (route: UnicastRoute | undefined, mark: number) => {
      if (as !== 'link') return as === undefined ? '' : ` with ${as}`;
      return route === undefined ? '' : await masqueradedText(to, route, mark);
    };
    const route = await routeOf(0);
    const by = pathText(to, route, links);
    const others: string[] = [];
    for (const { mark, mask } of (await routingMarks(to.family)).slice(0, MOST_MARKS)) {
      const marked = await routeOf(mark).catch(noRoute);
      const path = marked === 'none' ? 'nowhere' : pathText(to, marked, links);
      if (mark === 0 || path === by) continue;
      const address = marked === 'none' ? '' : await addressOf(marked, mark);
      others.push(`, but with the mark ${hex(mark)}/${hex(mask)} ${path}${address}`);
    }
    return `leaves ${by}${await addressOf(route, 0)}${others.join('')}`;
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    return `the kernel has no route for such packets: ${error.message}`;
  }
}

function pathText(
  { family }: Address,
  route: UnicastRoute | undefined,
  links: ReadonlyMap<number, string>,
): string {
  const names = (route?.links ?? []).map((index) => links.get(index) ?? UNKNOWN_LINK);
  const through =
    route?.gateway === undefined ? '' : ` through ${formatAddress({ family, value: route.gateway })}`;
  const table = route?.table === RT_TABLE_MAIN ? '' : ` (routing table ${route?.table})`;
  return `by ${names.length === 0 ? UNKNOWN_LINK : names.join(' or ')}${through}${table}`;
}

const UNKNOWN_LINK = 'an unknown link';

/** Rules of routing that ask for marks: those of all known programs together are fewer. */
const MOST_MARKS = 16;

function noRoute(error: unknown): 'none' {
  if (!(error instanceof NetlinkError)) throw error;
  return 'none';
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

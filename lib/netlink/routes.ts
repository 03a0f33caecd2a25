import { FAMILIES, type Family } from '../cidr/address.ts';
import { receive } from './connection.ts';
import { NetlinkError } from './error.ts';
import {
  aligned,
  attribute,
  attributesOf,
  bigUint,
  bytesOf,
  find,
  hostUint,
  type Message,
  NFPROTO,
  type Span,
} from './messages.ts';
import { routeReplies } from './route-requests.ts';

/** A route whose destinations are addresses of this machine itself. */
export interface LocalRoute {
  readonly family: Family;
  readonly address: bigint;
  /** The prefix length. */
  readonly length: number;
  /** Whether the kernel has made it for an address of a link; otherwise somebody has added it (`ip route add local`). */
  readonly isOfLink: boolean;
}

/** A route to other machines or to pods: of type unicast, in any table but `local`. */
export interface UnicastRoute extends LocalRoute {
  /** The number of its table. */
  readonly table: number;
  /** Undefined if there is none, or if the route has several ways. */
  readonly gateway: bigint | undefined;
  /** The address that the node itself sends with; undefined if the route does not say it. */
  readonly source: bigint | undefined;
  readonly links: readonly number[];
}

/** A mark that rules of routing (`ip rule`) ask for. */
interface RoutingMark {
  readonly mark: number;
  readonly mask: number;
}

/** linux/rtnetlink.h. */
const [RT_TABLE_UNSPEC, RT_TABLE_LOCAL, RTN_UNICAST, RTN_LOCAL, RTPROT_KERNEL] = [0, 255, 1, 2, 2];
export const RT_TABLE_MAIN = 254;
const RTA = { dst: 1, src: 2, iif: 3, oif: 4, gateway: 5, multipath: 9, table: 15, mark: 16 } as const;
const RTA_PREFSRC = 7;
/** linux/fib_rules.h; `struct fib_rule_hdr` is as long as `struct rtmsg`. */
const FRA = { fwmark: 10, fwmask: 16 } as const;
const RTMSG_BYTES = 12;
/** `struct rtnexthop`: its length with attributes, flags, hops, and the index of the link. */
const RTNEXTHOP_BYTES = 8;

/**
 * The routes of the table `local`, in which the kernel looks for the type of an address (`fib daddr type` of nft(8),
 * `addrtype` of iptables-extensions(8)). It sends no other routes, of which a node can have 100,000.
 *
 * @throws {NetlinkError}
 */
export function localRoutes(): readonly LocalRoute[] {
  return FAMILIES.flatMap((family) => {
    const read = (reply: Message) => (isOf(reply, family) ? [readRoute(reply, family)] : []);
    const header = filterOf(RT_TABLE_LOCAL, RTN_LOCAL);
    const request = {
      kind: 'route',
      asked: 'list the local routes',
      family,
      header,
      isFiltered: true,
    } as const;
    try {
      return Array.from(routeReplies(request), (replies) => replies.flatMap(read)).flat();
    } catch (error) {
      // There is no such table.
      if (error instanceof NetlinkError && error.code === 'ENOENT') return [];
      throw error;
    }
  });
}

/** How many routes are read at most, by any link: a node that speaks BGP can have more. Those that are kept need 1 KB each. */
const [MOST_READ, MOST_KEPT] = [100_000, 20_000];

/**
 * The unicast routes that leave by some of these links, and the default routes. All are read: the kernel would go through all of them for each link.
 *
 * @throws {NetlinkError} also if there are too many
 */
export async function unicastRoutes(
  families: readonly Family[],
  links: ReadonlySet<number>,
): Promise<readonly UnicastRoute[]> {
  const routes: UnicastRoute[] = [];
  let read = 0;
  for (const family of families) {
    const header = filterOf(RT_TABLE_UNSPEC, RTN_UNICAST);
    const request = { kind: 'route', asked: 'list the routes', family, header, isFiltered: true } as const;
    await receive(routeReplies(request), (reply) => {
      read += 1;
      if (read > MOST_READ) throw new NetlinkError('failed', `there are more than ${MOST_READ} routes`);
      const { bytes, start } = reply.payload;
      if (!isOf(reply, family) || bytes[start + 4] === RT_TABLE_LOCAL) return;
      const route = readUnicast(reply, family);
      const isDefault = route.length === 0;
      if (isDefault || route.links.some((index) => links.has(index))) routes.push(route);
      if (routes.length > MOST_KEPT)
        throw new NetlinkError('failed', `there are more than ${MOST_KEPT} routes by links to pods`);
    });
  }
  return routes;
}

/**
 * The marks that rules of routing ask for, each once.
 *
 * @throws {NetlinkError}
 */
export async function routingMarks(family: Family): Promise<readonly RoutingMark[]> {
  const marks = new Map<string, RoutingMark>();
  const header = Buffer.alloc(RTMSG_BYTES - 4);
  const request = { kind: 'rule', asked: 'list the rules of routing', family, header } as const;
  await receive(routeReplies(request), (reply) => {
    if (!isOf(reply, family)) return;
    const attributes = attributesOf(reply, RTMSG_BYTES);
    const mask = numberIn(attributes, FRA.fwmask) ?? 0;
    const mark = numberIn(attributes, FRA.fwmark) ?? 0;
    if (mask !== 0) marks.set(`${mark}/${mask}`, { mark, mask });
  });
  return [...marks.values()];
}

/**
 * The route of packets to an address; with a source, the link that they come in by and a mark, as rules of routing (`ip rule`)
 * choose it.
 *
 * @throws {NetlinkError} also if there is none
 */
export async function routeTo(
  family: Family,
  to: bigint,
  from?: { readonly address: bigint; readonly link: number; readonly mark?: number },
): Promise<UnicastRoute | undefined> {
  const source = from === undefined ? [] : [attribute(RTA.src, bytesOf(from.address, NFPROTO[family].bytes))];
  const more = [...source, ...numberOf(RTA.iif, from?.link), ...numberOf(RTA.mark, from?.mark)];
  return await lookUp(family, to, RTM_F.table | RTM_F.fibMatch, more);
}

/**
 * The address with which the kernel itself sends to an address by a link; undefined if it does not say.
 *
 * @throws {NetlinkError} also if there is no route
 */
export async function sourceTo(
  family: Family,
  to: bigint,
  { link, mark }: { readonly link: number; readonly mark: number },
): Promise<bigint | undefined> {
  const more = [...numberOf(RTA.oif, link), ...numberOf(RTA.mark, mark)];
  return (await lookUp(family, to, RTM_F.table, more))?.source;
}

/** The flags in their second byte: they ask for the table too, and for all links of the route instead of what follows from it. */
const RTM_F = { table: 0x10, fibMatch: 0x20 } as const;

async function lookUp(
  family: Family,
  to: bigint,
  flags: number,
  more: readonly Buffer[],
): Promise<UnicastRoute | undefined> {
  const request = {
    kind: 'route',
    asked: 'find a route',
    family,
    isOne: true,
    header: Buffer.from([0, 0, 0, 0, 0, flags, 0, 0]),
    attributes: [attribute(RTA.dst, bytesOf(to, NFPROTO[family].bytes)), ...more],
  } as const;
  const routes: UnicastRoute[] = [];
  await receive(routeReplies(request), (reply) => routes.push(readUnicast(reply, family)));
  return routes[0];
}

function numberOf(type: number, value: number | undefined): readonly Buffer[] {
  const written = Buffer.alloc(4);
  written.writeUInt32LE(value ?? 0);
  return value ? [attribute(type, written)] : [];
}

/** The rest of `struct rtmsg`: the table, no protocol and scope, the type, and no flags. */
function filterOf(table: number, type: number): Buffer {
  return Buffer.from([table, 0, 0, type, 0, 0, 0, 0]);
}

/** Whether the route is of the family that was asked for: a kernel without IPv6 sends those of IPv4. */
function isOf({ payload: { bytes, start } }: Message, family: Family): boolean {
  return bytes[start] === NFPROTO[family].protocol;
}

/** Reads RTM_NEWROUTE. */
function readRoute(message: Message, family: Family): LocalRoute {
  const { bytes, start } = message.payload;
  return {
    family,
    address: addressIn(attributesOf(message, RTMSG_BYTES), RTA.dst, family) ?? 0n,
    length: bytes.readUInt8(start + 1),
    isOfLink: bytes[start + 5] === RTPROT_KERNEL,
  };
}

function readUnicast(message: Message, family: Family): UnicastRoute {
  const { bytes, start } = message.payload;
  const attributes = attributesOf(message, RTMSG_BYTES);
  return {
    ...readRoute(message, family),
    table: numberIn(attributes, RTA.table) ?? bytes.readUInt8(start + 4),
    gateway: addressIn(attributes, RTA.gateway, family),
    source: addressIn(attributes, RTA_PREFSRC, family),
    links: linksOf(attributes),
  };
}

function addressIn(attributes: Span, type: number, family: Family): bigint | undefined {
  const address = find(attributes, type);
  return address && bigUint(address, NFPROTO[family].bytes);
}

function numberIn(attributes: Span, type: number): number | undefined {
  const number = find(attributes, type);
  return number && hostUint(number);
}

/** The links of a route with one way or several; none if the kernel names only a nexthop object (nexthop_compat_mode=0). */
function linksOf(attributes: Span): readonly number[] {
  const only = numberIn(attributes, RTA.oif);
  if (only !== undefined) return [only];
  const links: number[] = [];
  const { bytes, start, end } = find(attributes, RTA.multipath) ?? { ...attributes, end: attributes.start };
  for (let hop = start; hop + RTNEXTHOP_BYTES <= end; ) {
    links.push(bytes.readUInt32LE(hop + 4));
    hop += Math.max(RTNEXTHOP_BYTES, aligned(bytes.readUInt16LE(hop)));
  }
  return links;
}

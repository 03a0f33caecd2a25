import { FAMILIES, type Family } from '../cidr/address.ts';
import { receive, replyParts } from './connection.ts';
import { malformed, NetlinkError } from './error.ts';
import {
  attribute,
  bytesOf,
  endOf,
  type Message,
  NFPROTO,
  NLM_F,
  type Span,
  seek,
  unsigned,
  writeMessage,
} from './messages.ts';
import { NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

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
  readonly links: readonly number[];
}

/** A mark that rules of routing (`ip rule`) ask for. */
interface RoutingMark {
  readonly mark: number;
  readonly mask: number;
}

/** linux/rtnetlink.h. */
const RTM = { newRoute: 24, getRoute: 26, newRule: 32, getRule: 34 } as const;
const [RT_TABLE_UNSPEC, RT_TABLE_LOCAL, RTN_UNICAST, RTN_LOCAL, RTPROT_KERNEL] = [0, 255, 1, 2, 2];
export const RT_TABLE_MAIN = 254;
const RTA = { dst: 1, src: 2, iif: 3, oif: 4, gateway: 5, multipath: 9, table: 15, mark: 16 } as const;
/** linux/fib_rules.h; `struct fib_rule_hdr` is as long as `struct rtmsg`. */
const FRA = { fwmark: 10, fwmask: 16 } as const;
/** FRA_IP_PROTO and so on, up to FRA_FLOWLABEL; and where the type of service is in the header. */
const [FRA_OF_PACKETS, FRH_TOS] = [[22, 23, 24, 25, 26], 3];
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
  using socket = new NetlinkSocket(NETLINK_ROUTE);
  const asked = 'list the local routes';
  socket.filterDumps(asked);
  return FAMILIES.flatMap((family, sequence) => {
    const read = (reply: Message) => (isOf(reply, family) ? [readRoute(reply, family)] : []);
    socket.send(requestOf(family, RT_TABLE_LOCAL, RTN_LOCAL, sequence), asked);
    try {
      const parts = replyParts(socket, { asked, sequence, type: RTM.newRoute });
      return Array.from(parts, (replies) => replies.flatMap(read)).flat();
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
  using socket = new NetlinkSocket(NETLINK_ROUTE);
  const asked = 'list the routes';
  socket.filterDumps(asked);
  const routes: UnicastRoute[] = [];
  let read = 0;
  for (const [sequence, family] of families.entries()) {
    socket.send(requestOf(family, RT_TABLE_UNSPEC, RTN_UNICAST, sequence), asked);
    await receive(socket, { asked, sequence, type: RTM.newRoute }, (reply) => {
      read += 1;
      if (read > MOST_READ) throw new NetlinkError('failed', `there are more than ${MOST_READ} routes`);
      if (!isOf(reply, family) || reply.payload.bytes[reply.payload.start + 4] === RT_TABLE_LOCAL) return;
      const ways = linksOf(reply.payload);
      const isDefault = reply.payload.bytes[reply.payload.start + 1] === 0;
      if (isDefault || ways.some((index) => links.has(index))) routes.push(readUnicast(reply, family, ways));
      if (routes.length > MOST_KEPT)
        throw new NetlinkError('failed', `there are more than ${MOST_KEPT} routes by links to pods`);
    });
  }
  return routes;
}

/** What rules of routing (`ip rule`) ask of packets besides addresses and links. */
interface RoutingQuestions {
  /** Each once. */
  readonly marks: readonly RoutingMark[];
  /** Whether some ask for a protocol, a port or a type of service: then packets to one address can go different ways. */
  readonly askForMore: boolean;
}

/** @throws {NetlinkError} */
export async function routingQuestions(family: Family): Promise<RoutingQuestions> {
  using socket = new NetlinkSocket(NETLINK_ROUTE);
  const asked = 'list the rules of routing';
  const attributes = [Buffer.alloc(RTMSG_BYTES - 4)];
  const { protocol } = NFPROTO[family];
  socket.send(writeMessage({ type: RTM.getRule, flags: NLM_F.dump, protocol, attributes }, 0), asked);
  const marks = new Map<string, RoutingMark>();
  let askForMore = false;
  await receive(socket, { asked, sequence: 0, type: RTM.newRule }, (reply) => {
    const { bytes, start: header, end } = reply.payload;
    const numberIn = (type: number) => {
      const at = seek(bytes, header + RTMSG_BYTES, end, type);
      return at < 0 ? undefined : bytes.readUInt32LE(at);
    };
    const mask = numberIn(FRA.fwmask) ?? 0;
    if (!isOf(reply, family)) return;
    askForMore ||= bytes[header + FRH_TOS] !== 0;
    askForMore ||= FRA_OF_PACKETS.some((type) => seek(bytes, header + RTMSG_BYTES, end, type) >= 0);
    if (mask === 0) return;
    const mark = numberIn(FRA.fwmark) ?? 0;
    marks.set(`${mark}/${mask}`, { mark, mask });
  });
  return { marks: [...marks.values()], askForMore };
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
  using socket = new NetlinkSocket(NETLINK_ROUTE);
  const { protocol, bytes } = NFPROTO[family];
  const link = Buffer.alloc(4);
  link.writeUInt32LE(from?.link ?? 0);
  const mark = Buffer.alloc(4);
  mark.writeUInt32LE(from?.mark ?? 0);
  const attributes = [
    // The rest of `struct rtmsg` asks for the table too, and for all links of the route: RTM_F_LOOKUP_TABLE, RTM_F_FIB_MATCH.
    Buffer.from([0, 0, 0, 0, 0, 0x30, 0, 0]),
    attribute(RTA.dst, bytesOf(to, bytes)),
    ...(from === undefined ? [] : [attribute(RTA.src, bytesOf(from.address, bytes))]),
    ...(from?.link ? [attribute(RTA.iif, link)] : []),
    ...(from?.mark ? [attribute(RTA.mark, mark)] : []),
  ];
  const asked = 'find a route';
  socket.send(writeMessage({ type: RTM.getRoute, flags: NLM_F.ack, protocol, attributes }, 0), asked);
  const routes: UnicastRoute[] = [];
  await receive(socket, { asked, sequence: 0, type: RTM.newRoute }, (reply) =>
    routes.push(readUnicast(reply, family, linksOf(reply.payload))),
  );
  return routes[0];
}

function requestOf(family: Family, table: number, type: number, sequence: number): Buffer {
  // The rest of `struct rtmsg`: the table, no protocol and scope, the type, and no flags.
  const filter = Buffer.from([table, 0, 0, type, 0, 0, 0, 0]);
  const { protocol } = NFPROTO[family];
  return writeMessage({ type: RTM.getRoute, flags: NLM_F.dump, protocol, attributes: [filter] }, sequence);
}

/** Whether the route is of the family that was asked for: a kernel without IPv6 sends those of IPv4. */
function isOf({ payload: { bytes, start } }: Message, family: Family): boolean {
  return bytes[start] === NFPROTO[family].protocol;
}

/** Reads RTM_NEWROUTE. */
function readRoute({ payload }: Message, family: Family): LocalRoute {
  const { bytes, start, end } = payload;
  if (end - start < RTMSG_BYTES) throw malformed('a route without a header');
  return {
    family,
    address: addressIn(payload, RTA.dst, family) ?? 0n,
    length: bytes.readUInt8(start + 1),
    isOfLink: bytes[start + 5] === RTPROT_KERNEL,
  };
}

function readUnicast(message: Message, family: Family, links: UnicastRoute['links']): UnicastRoute {
  const { payload } = message;
  const { bytes, start, end } = payload;
  const table = seek(bytes, start + RTMSG_BYTES, end, RTA.table);
  return {
    ...readRoute(message, family),
    table: table < 0 ? bytes.readUInt8(start + 4) : bytes.readUInt32LE(table),
    gateway: addressIn(payload, RTA.gateway, family),
    links,
  };
}

function addressIn({ bytes, start, end }: Span, type: number, family: Family) {
  const at = seek(bytes, start + RTMSG_BYTES, end, type);
  return at < 0 ? undefined : unsigned({ bytes, start: at, end: endOf(bytes, at) }, NFPROTO[family].bytes);
}

/** The links of a route with one way or several; none if the kernel names only a nexthop object (nexthop_compat_mode=0). */
function linksOf({ bytes, start: header, end }: Span): readonly number[] {
  const start = header + RTMSG_BYTES;
  const only = seek(bytes, start, end, RTA.oif);
  if (only >= 0) return [bytes.readUInt32LE(only)];
  const links: number[] = [];
  const first = seek(bytes, start, end, RTA.multipath);
  const last = first < 0 ? first : endOf(bytes, first) - RTNEXTHOP_BYTES;
  for (let hop = first; hop >= 0 && hop <= last; ) {
    links.push(bytes.readUInt32LE(hop + 4));
    hop += Math.max(RTNEXTHOP_BYTES, (bytes.readUInt16LE(hop) + 3) & ~3);
  }
  return links;
}

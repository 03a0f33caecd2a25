import { replyParts } from './connection.ts';
import { malformed, NetlinkError } from './error.ts';
import { attributesIn, FAMILIES, FLAGS, find, type Message, unsigned, writeMessage } from './messages.ts';
import { NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

/** A route whose destinations are addresses of this machine itself. */
export interface LocalRoute {
  readonly family: keyof typeof FAMILIES;
  readonly address: bigint;
  /** The prefix length. */
  readonly length: number;
  /** Whether the kernel has made it for an address of a link; otherwise somebody has added it (`ip route add local`). */
  readonly isOfLink: boolean;
}

/** linux/rtnetlink.h. */
const RTM = { newRoute: 24, getRoute: 26 } as const;
const [RT_TABLE_LOCAL, RTN_LOCAL, RTPROT_KERNEL, RTA_DST] = [255, 2, 2, 1];
const RTMSG_BYTES = 12;

const ASKED = 'list the local routes';

/**
 * The routes of the table `local`, in which the kernel looks for the type of an address (`fib daddr type` of nft(8),
 * `addrtype` of iptables-extensions(8)). It sends no other routes, of which a node can have 100,000.
 *
 * @throws {NetlinkError}
 */
export function localRoutes(): readonly LocalRoute[] {
  using socket = new NetlinkSocket(NETLINK_ROUTE);
  socket.filterDumps(ASKED);
  return (['IPv4', 'IPv6'] as const).flatMap((family, sequence) => [...dump(socket, family, sequence)]);
}

function* dump(socket: NetlinkSocket, family: LocalRoute['family'], sequence: number): Generator<LocalRoute> {
  // The rest of `struct rtmsg`: the table, no protocol and scope, the type, and no flags.
  const filter = Buffer.from([RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0, 0, 0, 0]);
  const { protocol } = FAMILIES[family];
  const request = { type: RTM.getRoute, flags: FLAGS.dump, protocol, attributes: [filter] };
  socket.send(writeMessage(request, sequence), ASKED);
  try {
    // A kernel without IPv6 sends those of IPv4.
    for (const replies of replyParts(socket, { asked: ASKED, sequence, type: RTM.newRoute }))
      for (const reply of replies)
        if (reply.payload.bytes[reply.payload.start] === protocol) yield readRoute(reply, family);
  } catch (error) {
    // There is no such table.
    if (!(error instanceof NetlinkError && error.code === 'ENOENT')) throw error;
  }
}

/** Reads RTM_NEWROUTE. */
function readRoute({ payload: { bytes, start, end } }: Message, family: LocalRoute['family']): LocalRoute {
  if (end - start < RTMSG_BYTES) throw malformed('a route without a header');
  const destination = find(attributesIn({ bytes, start: start + RTMSG_BYTES, end }), RTA_DST);
  return {
    family,
    address: destination === undefined ? 0n : unsigned(destination, FAMILIES[family].bytes),
    length: bytes.readUInt8(start + 1),
    isOfLink: bytes[start + 5] === RTPROT_KERNEL,
  };
}

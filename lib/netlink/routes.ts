import { kernelError, malformed, NetlinkError } from './error.ts';
import {
  attributesIn,
  errnoIn,
  FLAGS,
  find,
  type Message,
  messagesIn,
  unsigned,
  writeMessage,
} from './messages.ts';
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

/** AF_… in bits/socket.h, and the bytes of an address. */
const FAMILIES = { IPv4: { protocol: 2, bytes: 4 }, IPv6: { protocol: 10, bytes: 16 } } as const;

/** linux/rtnetlink.h. */
const RTM = { newRoute: 24, getRoute: 26 } as const;
const [RT_TABLE_LOCAL, RTN_LOCAL, RTPROT_KERNEL, RTA_DST] = [255, 2, 2, 1];
const RTMSG_BYTES = 12;

const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const ENOENT = 2;
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
  for (;;) {
    const bytes = socket.receive();
    if (bytes === undefined) throw new NetlinkError('failed', `cannot ${ASKED}: the kernel does not answer`);
    const own = messagesIn(bytes).filter((one) => one.sequence === sequence && one.port === socket.port);
    for (const message of own) {
      if (isEnd(message)) return;
      if (message.type !== RTM.newRoute) throw malformed(`type ${message.type} as a route`);
      // A kernel without IPv6 sends those of IPv4.
      if (message.payload.bytes[message.payload.from] === protocol) yield readRoute(message, family);
    }
  }
}

/** Whether the list ends with the message; throws the kernel's error. */
function isEnd(message: Message): boolean {
  if (message.type !== NLMSG_ERROR && message.type !== NLMSG_DONE) return false;
  const errno = errnoIn(message);
  // There is no such table.
  if (errno !== 0 && errno !== ENOENT) throw kernelError(errno, ASKED);
  return true;
}

/** Reads RTM_NEWROUTE. */
function readRoute({ payload: { bytes, from, to } }: Message, family: LocalRoute['family']): LocalRoute {
  if (to - from < RTMSG_BYTES) throw malformed('a route without a header');
  const destination = find(attributesIn({ bytes, from: from + RTMSG_BYTES, to }), RTA_DST);
  return {
    family,
    address: destination === undefined ? 0n : unsigned(destination, FAMILIES[family].bytes),
    length: bytes.readUInt8(from + 1),
    isOfLink: bytes[from + 5] === RTPROT_KERNEL,
  };
}

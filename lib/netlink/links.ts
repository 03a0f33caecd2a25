import { receive } from './connection.ts';
import { malformed } from './error.ts';
import { attribute, attributesIn, find, type Message, NLM_F, text, writeMessage } from './messages.ts';
import { NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

export interface Link {
  readonly index: number;
  readonly name: string;
  /** Such as `veth`; undefined for hardware. */
  readonly kind: string | undefined;
  /** The index of the bridge or the like that it is a port of; undefined if it is none. */
  readonly master: number | undefined;
  /** Whether it is one end of a pair, or a tunnel, with the other end in another network namespace. */
  readonly peerIsInOtherNamespace: boolean;
}

/** linux/rtnetlink.h and linux/if_link.h. */
const RTM = { newLink: 16, getLink: 18 } as const;
const IFLA = { name: 3, master: 10, info: 18, extMask: 29, linkNamespace: 37 } as const;
const IFLA_INFO_KIND = 1;
const RTEXT_FILTER_SKIP_STATS = 8;
const IFINFOMSG_BYTES = 16;

/**
 * All links.
 *
 * @throws {NetlinkError}
 */
export async function allLinks(): Promise<readonly Link[]> {
  using socket = new NetlinkSocket(NETLINK_ROUTE);
  const asked = 'list the links';
  const mask = attribute(IFLA.extMask, Buffer.from([RTEXT_FILTER_SKIP_STATS, 0, 0, 0]));
  // The rest of `struct ifinfomsg` asks for nothing.
  const attributes = [Buffer.alloc(IFINFOMSG_BYTES - 4), mask];
  socket.send(writeMessage({ type: RTM.getLink, flags: NLM_F.dump, protocol: 0, attributes }, 0), asked);
  const links: Link[] = [];
  await receive(socket, { asked, sequence: 0, type: RTM.newLink }, (reply) => links.push(readLink(reply)));
  return links;
}

/** Reads RTM_NEWLINK. */
function readLink({ payload: { bytes, start, end } }: Message): Link {
  if (end - start < IFINFOMSG_BYTES) throw malformed('a link without a header');
  const attributes = attributesIn({ bytes, start: start + IFINFOMSG_BYTES, end });
  const kind = find(attributesIn(find(attributes, IFLA.info)), IFLA_INFO_KIND);
  const master = find(attributes, IFLA.master);
  return {
    index: bytes.readUInt32LE(start + 4),
    name: text(find(attributes, IFLA.name)),
    kind: kind && text(kind),
    master: master && bytes.readUInt32LE(master.start),
    peerIsInOtherNamespace: find(attributes, IFLA.linkNamespace) !== undefined,
  };
}

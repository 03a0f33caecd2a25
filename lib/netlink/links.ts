import { receive } from './connection.ts';
import { attribute, attributesOf, find, hostUint, type Message, text } from './messages.ts';
import { routeReplies } from './route-requests.ts';

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

/** linux/if_link.h. */
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
  const header = Buffer.alloc(IFINFOMSG_BYTES - 4);
  const attributes = [attribute(IFLA.extMask, Buffer.from([RTEXT_FILTER_SKIP_STATS, 0, 0, 0]))];
  const links: Link[] = [];
  const parts = routeReplies({ kind: 'link', asked: 'list the links', header, attributes });
  await receive(parts, (reply) => links.push(readLink(reply)));
  return links;
}

/** Reads RTM_NEWLINK. */
function readLink(message: Message): Link {
  const attributes = attributesOf(message, IFINFOMSG_BYTES);
  const { bytes, start } = message.payload;
  const kind = find(find(attributes, IFLA.info), IFLA_INFO_KIND);
  const master = find(attributes, IFLA.master);
  return {
    index: bytes.readUInt32LE(start + 4),
    name: text(find(attributes, IFLA.name)),
    kind: kind && text(kind),
    master: master && hostUint(master),
    peerIsInOtherNamespace: find(attributes, IFLA.linkNamespace) !== undefined,
  };
}

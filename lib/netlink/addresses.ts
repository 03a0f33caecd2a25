import { FAMILIES, type Family } from '../cidr/address.ts';
import { replyParts } from './connection.ts';
import { malformed } from './error.ts';
import { attributesIn, find, type Message, NFPROTO, NLM_F, unsigned, writeMessage } from './messages.ts';
import { NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

/** An address of a link. */
export interface InterfaceAddress {
  readonly family: Family;
  readonly value: bigint;
  /** The prefix length. */
  readonly length: number;
  readonly isDeprecated: boolean;
  /** Whether the link had another address of the same network before or, of IPv6, whether it is temporary (RFC 8981). */
  readonly isSecondary: boolean;
  /** Whether another host may have this address of IPv6: the search for a duplicate goes on, or has found one (RFC 4862). */
  readonly isUnsure: boolean;
}

/** linux/rtnetlink.h and linux/if_addr.h. */
const RTM = { newAddress: 20, getAddress: 22 } as const;
const IFA = { address: 1, local: 2 } as const;
/** An optimistic address may be used while the search goes on. */
const IFA_F = {
  secondary: 0x01,
  optimistic: 0x04,
  dadFailed: 0x08,
  deprecated: 0x20,
  tentative: 0x40,
} as const;
const IFADDRMSG_BYTES = 8;

/**
 * All addresses of all links, of both families.
 *
 * @throws {NetlinkError}
 */
export function allAddresses(): readonly InterfaceAddress[] {
  using socket = new NetlinkSocket(NETLINK_ROUTE);
  const asked = 'list the addresses';
  // The rest of `struct ifaddrmsg` asks for nothing.
  const attributes = [Buffer.alloc(IFADDRMSG_BYTES - 4)];
  socket.send(writeMessage({ type: RTM.getAddress, flags: NLM_F.dump, protocol: 0, attributes }, 0), asked);
  const parts = replyParts(socket, { asked, sequence: 0, type: RTM.newAddress });
  return Array.from(parts, (replies) => replies.flatMap(readAddress)).flat();
}

/** Reads RTM_NEWADDR; none if the family is another one. */
function readAddress({ payload: { bytes, start, end } }: Message): readonly InterfaceAddress[] {
  if (end - start < IFADDRMSG_BYTES) throw malformed('an address without a header');
  const [protocol = 0, length = 0, flags = 0] = bytes.subarray(start, end);
  const family = FAMILIES.find((one) => NFPROTO[one].protocol === protocol);
  const attributes = attributesIn({ bytes, start: start + IFADDRMSG_BYTES, end });
  // IFA_ADDRESS is that of the other end, if the link has one.
  const address = find(attributes, IFA.local) ?? find(attributes, IFA.address);
  if (family === undefined || address === undefined) return [];
  const value = unsigned(address, NFPROTO[family].bytes);
  const has = (flag: number) => (flags & flag) !== 0;
  const isUnsure = has(IFA_F.dadFailed) || (has(IFA_F.tentative) && !has(IFA_F.optimistic));
  const isDeprecated = has(IFA_F.deprecated);
  return [{ family, value, length, isDeprecated, isSecondary: has(IFA_F.secondary), isUnsure }];
}

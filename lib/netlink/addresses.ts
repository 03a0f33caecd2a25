import { FAMILIES, type Family } from '../cidr/address.ts';
import { attributesOf, bigUint, find, type Message, NFPROTO } from './messages.ts';
import { routeReplies } from './route-requests.ts';

/** An address of a link. */
export interface InterfaceAddress {
  readonly family: Family;
  readonly value: bigint;
  /** The index of the link. */
  readonly link: number;
  /** The prefix length, of the network in which the other end is, if the link has one, else the address. */
  readonly length: number;
  /** The address of the other end, if the link has one, else the address. */
  readonly network: bigint;
  /** Whether it is for use beyond the link and the machine. */
  readonly isGlobal: boolean;
  readonly isDeprecated: boolean;
  /** Whether the link had another address of the same network before or, of IPv6, whether it is temporary (RFC 8981). */
  readonly isSecondary: boolean;
  /** Whether another host may have this address of IPv6: the search for a duplicate goes on, or has found one (RFC 4862). */
  readonly isUnsure: boolean;
}

/** linux/if_addr.h. */
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
const RT_SCOPE_UNIVERSE = 0;

/**
 * All addresses of all links, of both families.
 *
 * @throws {NetlinkError}
 */
export function allAddresses(): readonly InterfaceAddress[] {
  const header = Buffer.alloc(IFADDRMSG_BYTES - 4);
  const parts = routeReplies({ kind: 'address', asked: 'list the addresses', header });
  return Array.from(parts, (replies) => replies.flatMap(readAddress)).flat();
}

/** Reads RTM_NEWADDR; none if the family is another one. */
function readAddress(message: Message): readonly InterfaceAddress[] {
  const attributes = attributesOf(message, IFADDRMSG_BYTES);
  const { bytes, start, end: last } = message.payload;
  const [protocol = 0, length = 0, flags = 0, scope] = bytes.subarray(start, last);
  const family = FAMILIES.find((one) => NFPROTO[one].protocol === protocol);
  // IFA_ADDRESS is that of the other end, if the link has one.
  const end = find(attributes, IFA.address);
  const address = find(attributes, IFA.local) ?? end;
  if (family === undefined || address === undefined) return [];
  const value = bigUint(address, NFPROTO[family].bytes);
  const network = end === undefined ? value : bigUint(end, NFPROTO[family].bytes);
  const has = (flag: number) => (flags & flag) !== 0;
  const isUnsure = has(IFA_F.dadFailed) || (has(IFA_F.tentative) && !has(IFA_F.optimistic));
  const isDeprecated = has(IFA_F.deprecated);
  const isSecondary = has(IFA_F.secondary);
  const isGlobal = scope === RT_SCOPE_UNIVERSE;
  const link = bytes.readUInt32LE(start + 4);
  return [{ family, value, network, link, length, isGlobal, isDeprecated, isSecondary, isUnsure }];
}

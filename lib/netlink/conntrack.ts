import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Family } from '../cidr/address.ts';
import { replyParts } from './connection.ts';
import { malformed, NetlinkError } from './error.ts';
import {
  ATTRIBUTE_HEADER_BYTES,
  aligned,
  attribute,
  attributeEnd,
  attributesOf,
  attributeType,
  bigUintAt,
  bytesOf,
  find,
  type Message,
  NFPROTO,
  NLM_F,
  type Request,
  type Span,
  uint,
  uintAt,
  writeMessage,
} from './messages.ts';
import { NetlinkSocket } from './socket.ts';

/** The addresses and ports of packets in one direction. */
interface Tuple {
  readonly source: bigint;
  readonly destination: bigint;
  /** Undefined for a protocol without ports. */
  readonly sourcePort: number | undefined;
  readonly destinationPort: number | undefined;
}

/** A connection, or what the kernel takes for one. */
export interface Flow {
  readonly family: Family;
  /** The number of the protocol (IANA). */
  readonly protocol: number;
  /** What its first packet had before any translation. */
  readonly original: Tuple;
  /** What its replies have before that is undone: their destination is the source that the first packet left with. */
  readonly reply: Tuple;
  /** Tells it from an earlier flow with the same tuples. */
  readonly id: number;
  /** 0, unless a rule or a virtual switch has put it into a zone of its own. */
  readonly zone: number;
  /** Whether a connection tracking helper expected it: its translation is that of another flow. */
  readonly isExpected: boolean;
  /** TCP_CONNTRACK_… in linux/netfilter/nf_conntrack_tcp.h; undefined for other protocols. */
  readonly tcpState: number | undefined;
}

/** IPCTNL_MSG_CT_… in linux/netfilter/nfnetlink_conntrack.h; the high byte is NFNL_SUBSYS_CTNETLINK. */
const CT_MSG = { new: 0x0100, get: 0x0101, delete: 0x0102, getStats: 0x0105 } as const;

/** Attributes in the same file. */
const CTA = {
  original: 1,
  reply: 2,
  status: 3,
  protoInfo: 4,
  id: 12,
  zone: 18,
} as const;
const CTA_TUPLE = { ip: 1, proto: 2 } as const;
const CTA_PROTO = { number: 1, sourcePort: 2, destinationPort: 3 } as const;
const CTA_PROTOINFO_TCP = 1;
const CTA_PROTOINFO_TCP_STATE = 1;
const CTA_STATS_GLOBAL_ENTRIES = 1;

/** IPS_EXPECTED in linux/netfilter/nf_conntrack_common.h. */
const IPS_EXPECTED = 1;

/** CTA_IP_… for the source; that of the destination follows. */
const CTA_IP_SOURCE = { IPv4: 1, IPv6: 3 } as const;

/** Connection tracking of the network namespace that this process is in. All methods throw NetlinkError. */
export class Conntrack implements Disposable {
  readonly #socket = new NetlinkSocket();
  #sequence = 0;

  /** How many flows there are, of both families. */
  flowCount(): number {
    const request = { type: CT_MSG.getStats, flags: NLM_F.ack, protocol: 0, attributes: [] };
    const parts = this.#ask('count the flows of conntrack', this.#socket, request, CT_MSG.getStats);
    const read = (reply: Message) => uint(find(attributesOf(reply), CTA_STATS_GLOBAL_ENTRIES));
    const [entries] = Array.from(parts, (replies) => replies.map(read)).flat();
    if (entries === undefined) throw malformed('no number of flows');
    return entries;
  }

  /**
   * Reads all flows, some hundred at a time: what the kernel sends at once. After each part, other events have their
   * turn. Of flows that come or go meanwhile, some may be missing, or there twice.
   *
   * @param family both if it is undefined
   * @param take must not keep flows: what lives longer than a moment is collected as garbage only much later
   * @param afterPart is called after each part; only then may flows be deleted
   */
  async flows(family: Family | undefined, take: (flow: Flow) => void, afterPart: () => void): Promise<void> {
    for (const replies of this.#dump(family)) {
      for (const reply of replies) take(readFlow(reply));
      afterPart();
      await nextTurn();
    }
  }

  *#dump(family: Family | undefined) {
    // The kernel goes on with a dump at each reading: other requests need a socket of their own.
    using socket = new NetlinkSocket();
    const protocol = family === undefined ? 0 : NFPROTO[family].protocol;
    const request = { type: CT_MSG.get, flags: NLM_F.dump, protocol, attributes: [] };
    yield* this.#ask('list the flows of conntrack', socket, request, CT_MSG.new);
  }

  /**
   * Deletes a flow with ports: its next packet begins a new one, which passes all NAT rules.
   *
   * @returns whether it was still there
   */
  delete({ family, protocol, original, id }: Flow): boolean {
    const tuple = tupleAttributes(family, protocol, original);
    const attributes = [attribute(CTA.original, tuple), attribute(CTA.id, bytesOf(id, 4))];
    const request = { type: CT_MSG.delete, flags: NLM_F.ack, protocol: NFPROTO[family].protocol, attributes };
    try {
      Array.from(this.#ask('delete a flow of conntrack', this.#socket, request));
      return true;
    } catch (error) {
      if (error instanceof NetlinkError && error.code === 'ENOENT') return false;
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }

  /** Sends a request, and reads the replies of a type, if there are any. */
  *#ask(asked: string, socket: NetlinkSocket, request: Request, type?: number) {
    this.#sequence = (this.#sequence + 1) >>> 0;
    socket.send(writeMessage(request, this.#sequence), asked);
    try {
      yield* replyParts(socket, { asked, sequence: this.#sequence, ...(type !== undefined && { type }) });
    } catch (error) {
      // The kernel says this of a subsystem that it lacks, and cannot load as a module (nfnetlink.c).
      if (!(error instanceof NetlinkError && error.code === 'EINVAL')) throw error;
      const message = `cannot ${asked}: the kernel lacks the module nf_conntrack_netlink`;
      throw new NetlinkError('unsupported', message, 'EINVAL');
    }
  }
}

/** The tuple of a flow with ports. */
function tupleAttributes(
  family: Family,
  protocol: number,
  { source, destination, sourcePort = 0, destinationPort = 0 }: Tuple,
): readonly Buffer[] {
  const [type, { bytes }] = [CTA_IP_SOURCE[family], NFPROTO[family]];
  return [
    attribute(CTA_TUPLE.ip, [
      attribute(type, bytesOf(source, bytes)),
      attribute(type + 1, bytesOf(destination, bytes)),
    ]),
    attribute(CTA_TUPLE.proto, [
      attribute(CTA_PROTO.number, bytesOf(protocol, 1)),
      attribute(CTA_PROTO.sourcePort, bytesOf(sourcePort, 2)),
      attribute(CTA_PROTO.destinationPort, bytesOf(destinationPort, 2)),
    ]),
  ];
}

/**
 * Reads IPCTNL_MSG_CT_NEW. There can be 262,144 of them, so that attributes are passed once: to find one after the other takes
 * three times as long.
 */
export function readFlow(message: Message): Flow {
  const attributes = attributesOf(message);
  const { bytes, numbers, start, end } = attributes;
  const family = bytes[message.payload.start] === NFPROTO.IPv4.protocol ? 'IPv4' : 'IPv6';
  let original: Tuple | undefined;
  let reply: Tuple | undefined;
  let [protocol, status, id, zone] = [0, 0, 0, 0];
  let tcpState: number | undefined;
  for (let at = start, last = start; at < end; at = aligned(last)) {
    const first = at + ATTRIBUTE_HEADER_BYTES;
    last = attributeEnd(numbers, at, end);
    switch (attributeType(numbers, at)) {
      case CTA.original:
        original = readTuple(numbers, first, last);
        protocol =
          numberIn(find({ ...attributes, start: first, end: last }, CTA_TUPLE.proto), CTA_PROTO.number) ?? 0;
        break;
      case CTA.reply:
        reply = readTuple(numbers, first, last);
        break;
      case CTA.status:
        status = uintAt(numbers, first, last, 4);
        break;
      case CTA.protoInfo:
        tcpState = numberIn(
          find({ ...attributes, start: first, end: last }, CTA_PROTOINFO_TCP),
          CTA_PROTOINFO_TCP_STATE,
        );
        break;
      case CTA.id:
        id = uintAt(numbers, first, last, 4);
        break;
      case CTA.zone:
        zone = uintAt(numbers, first, last, 2);
    }
  }
  if (original === undefined || reply === undefined) throw malformed('a flow without a tuple');
  const isExpected = (status & IPS_EXPECTED) !== 0;
  return { family, protocol, original, reply, id, zone, isExpected, tcpState };
}

function readTuple(numbers: DataView, start: number, end: number): Tuple {
  let source: bigint | undefined;
  let destination: bigint | undefined;
  let sourcePort: number | undefined;
  let destinationPort: number | undefined;
  for (let outer = start, outerEnd = start; outer < end; outer = aligned(outerEnd)) {
    outerEnd = attributeEnd(numbers, outer, end);
    const part = attributeType(numbers, outer);
    if (part !== CTA_TUPLE.ip && part !== CTA_TUPLE.proto) continue;
    for (let at = outer + ATTRIBUTE_HEADER_BYTES, last = at; at < outerEnd; at = aligned(last)) {
      last = attributeEnd(numbers, at, outerEnd);
      const first = at + ATTRIBUTE_HEADER_BYTES;
      const type = attributeType(numbers, at);
      if (part === CTA_TUPLE.ip) {
        // Sources of IPv4 and IPv6 have odd numbers, destinations the even ones behind them.
        if (type % 2 === 1) source = addressAt(numbers, first, last);
        else destination = addressAt(numbers, first, last);
      } else if (type === CTA_PROTO.sourcePort) sourcePort = uintAt(numbers, first, last, 2);
      else if (type === CTA_PROTO.destinationPort) destinationPort = uintAt(numbers, first, last, 2);
    }
  }
  if (source === undefined || destination === undefined) throw malformed('a tuple without addresses');
  return { source, destination, sourcePort, destinationPort };
}

function addressAt(numbers: DataView, first: number, last: number): bigint {
  const isIPv6 = last - first === NFPROTO.IPv6.bytes;
  return bigUintAt(numbers, first, last, isIPv6 ? NFPROTO.IPv6.bytes : NFPROTO.IPv4.bytes);
}

/** The number of one byte in an attribute; undefined if there is no such attribute. */
function numberIn(attributes: Span | undefined, type: number): number | undefined {
  const number = find(attributes, type);
  return number && uint(number, 1);
}

import { replyParts } from './connection.ts';
import { type Message, NFPROTO, NLM_F, writeMessage } from './messages.ts';
import { NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

/** RTM_NEW… of linux/rtnetlink.h, which answer a request. That for them, RTM_GET…, is 2 higher. */
const RTM = { link: 16, address: 20, route: 24, rule: 32 } as const;

interface RouteRequest {
  readonly kind: keyof typeof RTM;
  /** What is asked, in words. */
  readonly asked: string;
  /** Of which family; absent for all. */
  readonly family?: keyof typeof NFPROTO;
  /** What follows the family in the header; zeros ask for nothing. */
  readonly header: Buffer;
  readonly attributes?: readonly Buffer[];
  /** Whether one is asked for, instead of a list. */
  readonly isOne?: boolean;
  /** Whether the kernel sends only what the header describes, instead of everything (Linux 4.20). */
  readonly isFiltered?: boolean;
}

/**
 * What rtnetlink(7) answers, in parts: what the kernel sends at once. Each must be read before the next.
 *
 * @throws {NetlinkError}
 */
export function* routeReplies(request: RouteRequest): Generator<readonly Message[], void> {
  const { kind, asked, family, header, attributes = [], isOne = false, isFiltered = false } = request;
  using socket = new NetlinkSocket(NETLINK_ROUTE);
  if (isFiltered) socket.filterDumps(asked);
  const message = {
    type: RTM[kind] + 2,
    flags: isOne ? NLM_F.ack : NLM_F.dump,
    protocol: family === undefined ? 0 : NFPROTO[family].protocol,
    attributes: [header, ...attributes],
  };
  socket.send(writeMessage(message, 0), asked);
  yield* replyParts(socket, { asked, sequence: 0, type: RTM[kind] });
}

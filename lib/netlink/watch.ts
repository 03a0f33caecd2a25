import { NetlinkError } from './error.ts';
import { type Message, messagesIn, NFT_MSG } from './messages.ts';
import { type Generation, readGeneration } from './replies.ts';
import { NETLINK_NETFILTER, NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

/** What has come since the last reading, and whether there was more that the kernel could not report. */
export interface Events<Item> {
  readonly items: readonly Item[];
  readonly lost: boolean;
}

/** Tells what comes until it is disposed; throws NetlinkError. While nobody asks, that waits in the kernel. */
export type Watch<Item> = AsyncIterable<Events<Item>> & Disposable;

/** The limit for messages that are read at once; the rest is read at the next turn. */
const MOST_AT_ONCE = 1_000;

/** RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR of linux/rtnetlink.h. */
const ADDRESS_GROUPS = [1, 5, 9];

/**
 * Tells every change of nf_tables in this network namespace, by any program: one generation for each transaction, in order.
 *
 * @throws {NetlinkError}
 */
export function openChangeWatch(): Watch<Generation> {
  const socket = new NetlinkSocket(NETLINK_NETFILTER, (opened) => opened.subscribe());
  return watchOf(socket, (message) =>
    message.type === NFT_MSG.newGeneration ? [readGeneration(message)] : [],
  );
}

/**
 * Tells that addresses or links of this network namespace may have changed (rtnetlink(7)), once for what came together.
 *
 * @throws {NetlinkError}
 */
export function openAddressWatch(): Watch<undefined> {
  const socket = new NetlinkSocket(NETLINK_ROUTE, (opened) => {
    for (const group of ADDRESS_GROUPS) opened.join(group, 'subscribe to changes of addresses');
  });
  return watchOf(socket, () => [undefined]);
}

function watchOf<Item>(socket: NetlinkSocket, read: (message: Message) => readonly Item[]): Watch<Item> {
  return {
    async *[Symbol.asyncIterator]() {
      while (socket.isOpen) {
        const news = takeNews(socket, read);
        if (news.items.length > 0 || news.lost) yield news;
        else await socket.readable();
      }
    },
    [Symbol.dispose]: () => socket.close(),
  };
}

function takeNews<Item>(socket: NetlinkSocket, read: (message: Message) => readonly Item[]): Events<Item> {
  const items: Item[] = [];
  let lost = false;
  // What other processes send counts too: a flood of it must not hold up other events.
  for (let reads = 0; reads < MOST_AT_ONCE; reads += 1) {
    try {
      const bytes = socket.receive();
      if (bytes === undefined) break;
      items.push(...messagesIn(bytes).flatMap(read));
    } catch (error) {
      if (!(error instanceof NetlinkError && error.code === 'ENOBUFS')) throw error;
      lost = true;
    }
  }
  return { items, lost };
}

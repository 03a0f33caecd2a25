import { NetlinkError } from './error.ts';
import { messagesIn, NFT_MSG } from './messages.ts';
import { type Generation, readGeneration } from './replies.ts';
import { NETLINK_NETFILTER, NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

export interface Changes {
  /** One for each transaction, in order. */
  readonly generations: readonly Generation[];
  /** Whether there were more that the kernel could not report. */
  readonly lost: boolean;
}

/** The limit for messages that are read at once; the rest is read at the next turn. */
const MOST_AT_ONCE = 1_000;

/** What has come since the last reading, and whether there was more that the kernel could not report. */
interface News<Item> {
  readonly items: readonly Item[];
  readonly lost: boolean;
}

/** Tells what comes to the socket until that is closed. It waits in the kernel while nobody asks. */
async function* newsOf<Item>(
  socket: NetlinkSocket,
  read: (bytes: Buffer) => readonly Item[],
): AsyncGenerator<News<Item>, void> {
  while (socket.isOpen) {
    const news = takeNews(socket, read);
    if (news.items.length > 0 || news.lost) yield news;
    else await socket.readable();
  }
}

function takeNews<Item>(socket: NetlinkSocket, read: (bytes: Buffer) => readonly Item[]): News<Item> {
  const items: Item[] = [];
  let lost = false;
  // What other processes send counts too: a flood of it must not hold up other events.
  for (let reads = 0; reads < MOST_AT_ONCE; reads += 1) {
    try {
      const bytes = socket.receive();
      if (bytes === undefined) break;
      items.push(...read(bytes));
    } catch (error) {
      if (!(error instanceof NetlinkError && error.code === 'ENOBUFS')) throw error;
      lost = true;
    }
  }
  return { items, lost };
}

/**
 * Tells every change of nf_tables in this network namespace, by any program, from its making on. If too much waits, some
 * is lost.
 */
export class ChangeWatch implements AsyncIterable<Changes>, Disposable {
  /** @throws {NetlinkError} */
  readonly #socket = new NetlinkSocket(NETLINK_NETFILTER, (socket) => socket.subscribe());

  /** @throws {NetlinkError} */
  async *[Symbol.asyncIterator](): AsyncGenerator<Changes, void> {
    const generationsIn = (bytes: Buffer) =>
      messagesIn(bytes)
        .filter(({ type }) => type === NFT_MSG.newGeneration)
        .map(readGeneration);
    for await (const { items, lost } of newsOf(this.#socket, generationsIn))
      yield { generations: items, lost };
  }

  /** Ends the iteration. */
  [Symbol.dispose](): void {
    this.#socket.close();
  }
}

/** RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR of linux/rtnetlink.h. */
const ADDRESS_GROUPS = [1, 5, 9];

/** Tells that addresses or links of this network namespace may have changed (rtnetlink(7)), once for what came together. */
export class AddressWatch implements AsyncIterable<void>, Disposable {
  /** @throws {NetlinkError} */
  readonly #socket = new NetlinkSocket(NETLINK_ROUTE, (socket) => {
    for (const group of ADDRESS_GROUPS) socket.join(group, 'subscribe to changes of addresses');
  });

  /** @throws {NetlinkError} */
  async *[Symbol.asyncIterator](): AsyncGenerator<void, void> {
    for await (const _ of newsOf(this.#socket, messagesIn)) yield;
  }

  /** Ends the iteration. */
  [Symbol.dispose](): void {
    this.#socket.close();
  }
}

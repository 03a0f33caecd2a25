import { NetlinkError } from './error.ts';
import { messagesIn, NFT_MSG } from './messages.ts';
import { type Generation, readGeneration } from './replies.ts';
import { NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

/** Changes of nf_tables that came together. */
export interface Changes {
  /** One for each transaction, in order. */
  readonly generations: readonly Generation[];
  /** Whether there were more that the kernel could not report. */
  readonly lost: boolean;
}

/** The limit for messages that are read at once; the rest is read at the next turn. */
const MOST_AT_ONCE = 1_000;

/**
 * Tells every change of nf_tables in this network namespace, by any program, from its making on. It waits in the kernel
 * while nobody asks; if too much waits, some is lost.
 */
export class ChangeWatch implements AsyncIterable<Changes>, Disposable {
  readonly #socket = new NetlinkSocket();

  /** @throws {NetlinkError} */
  constructor() {
    this.#socket.subscribe();
  }

  /** @throws {NetlinkError} */
  async *[Symbol.asyncIterator](): AsyncGenerator<Changes, void> {
    while (this.#socket.isOpen) {
      const changes = this.#read();
      if (changes.generations.length > 0 || changes.lost) yield changes;
      else await this.#socket.readable();
    }
  }

  /** Ends the iteration. */
  [Symbol.dispose](): void {
    this.#socket.close();
  }

  #read(): Changes {
    const generations: Generation[] = [];
    let lost = false;
    // What other processes send counts too: a flood of it must not hold up other events.
    for (let reads = 0; reads < MOST_AT_ONCE; reads += 1) {
      try {
        const bytes = this.#socket.receive();
        if (bytes === undefined) break;
        const told = messagesIn(bytes).filter(({ type }) => type === NFT_MSG.newGeneration);
        generations.push(...told.map(readGeneration));
      } catch (error) {
        if (!(error instanceof NetlinkError && error.code === 'ENOBUFS')) throw error;
        lost = true;
      }
    }
    return { generations, lost };
  }
}

/** RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR of linux/rtnetlink.h. */
const ADDRESS_GROUPS = [1, 5, 9];

/** Tells that addresses or links of this network namespace may have changed (rtnetlink(7)), once for what came together. */
export class AddressWatch implements AsyncIterable<void>, Disposable {
  readonly #socket = new NetlinkSocket(NETLINK_ROUTE);

  /** @throws {NetlinkError} */
  constructor() {
    for (const group of ADDRESS_GROUPS) this.#socket.join(group, 'subscribe to changes of addresses');
  }

  /** @throws {NetlinkError} */
  async *[Symbol.asyncIterator](): AsyncGenerator<void, void> {
    while (this.#socket.isOpen) {
      if (this.#hasNews()) yield;
      else await this.#socket.readable();
    }
  }

  /** Ends the iteration. */
  [Symbol.dispose](): void {
    this.#socket.close();
  }

  #hasNews(): boolean {
    let hasNews = false;
    for (let reads = 0; reads < MOST_AT_ONCE; reads += 1) {
      try {
        const bytes = this.#socket.receive();
        if (bytes === undefined) break;
        hasNews ||= bytes.length > 0;
      } catch (error) {
        if (!(error instanceof NetlinkError && error.code === 'ENOBUFS')) throw error;
        hasNews = true;
      }
    }
    return hasNews;
  }
}

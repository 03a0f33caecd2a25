import { NetlinkError } from './error.ts';
import { messagesIn, NFT_MSG } from './messages.ts';
import { type Generation, readGeneration } from './replies.ts';
import { NetlinkSocket } from './socket.ts';

/** Changes of nf_tables that came together. */
export interface Changes {
  /** One for each transaction, in order. */
  readonly generations: readonly Generation[];
  /** Whether there were more that the kernel could not report. */
  readonly lost: boolean;
}

/** NFNLGRP_NFTABLES in linux/netfilter/nfnetlink.h. */
export const GROUP = 7;

/** The limit for what is read at once; the rest is read at the next turn. */
const MOST_AT_ONCE = 1_000;

/**
 * Tells every change of nf_tables in this network namespace, by any program, from its making on. It waits in the kernel
 * while nobody asks; if too much waits, some is lost.
 */
export class ChangeWatch implements AsyncIterable<Changes>, Disposable {
  readonly #socket = new NetlinkSocket();

  /** @throws {NetlinkError} */
  constructor() {
    this.#socket.subscribe(GROUP, NFT_MSG.newGeneration);
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
    while (generations.length < MOST_AT_ONCE) {
      try {
        const slice = this.#socket.receive();
        if (slice === undefined) break;
        for (const message of messagesIn(slice)) {
          if (message.type === NFT_MSG.newGeneration) generations.push(readGeneration(message));
        }
      } catch (error) {
        if (!(error instanceof NetlinkError && error.code === 'ENOBUFS')) throw error;
        lost = true;
      }
    }
    return { generations, lost };
  }
}

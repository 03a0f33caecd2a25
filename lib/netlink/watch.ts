import { setTimeout as delay } from 'node:timers/promises';
import type { Family } from '../cidr/address.ts';
import { NetlinkError } from './error.ts';
import {
  attributesOf,
  find,
  isText,
  type Message,
  messagesIn,
  NFPROTO,
  NFT_MSG,
  NFTA,
  nameBytes,
} from './messages.ts';
import { isOwnPort } from './own-ports.ts';
import { type Generation, readGeneration } from './replies.ts';
import { NETLINK_NETFILTER, NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

/** What has come since the last reading, and whether there may be more, such as what the kernel could not report. */
export interface Events<Item> {
  readonly items: readonly Item[];
  readonly lost: boolean;
}

/** Tells what comes until it is disposed; throws NetlinkError. While nobody asks, that waits in the kernel. */
export type Watch<Item> = AsyncIterable<Events<Item>> & Disposable;

/**
 * The limit for what is read at once, of up to 32 KiB each; the rest is read later. As much as the kernel keeps for a
 * socket: only what other processes of root send to it can be more.
 */
const MOST_AT_ONCE = 10_000;

/** RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR of linux/rtnetlink.h. */
const ADDRESS_GROUPS = [1, 5, 9];

/** A table, or some of its chains, whose changes are to be told. */
export interface WatchedTable {
  readonly family: Family;
  readonly table: string;
  /** Absent for all that the table holds; empty if only that the table is made or deleted is to be told. */
  readonly chains?: readonly string[];
}

/** A transaction that has changed something in a watched table. */
export interface TableChange extends Omit<Generation, 'process'> {
  /** As of a generation; undefined if it is this process, or a tool that it has started. */
  readonly process: string | undefined;
  /** The port of the netlink socket that has made it. */
  readonly port: number;
  readonly touched: readonly WatchedTable[];
}

/**
 * Between two readings of all that other programs change. Each message must be looked at, because one datagram can hold those of
 * several tables; at 1,000 changes a second, to be woken for each would cost four times as much.
 */
const PAUSE_MS = 50;

/**
 * Tells the transactions of any program that change these tables, in order.
 *
 * @throws {NetlinkError}
 */
export function openChangeWatch(tables: readonly WatchedTable[]): Watch<TableChange> {
  const socket = new NetlinkSocket(NETLINK_NETFILTER, (opened) => opened.subscribe());
  return watchOf(socket, createChangeReader(tables), PAUSE_MS);
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
  const read = (bytes: Buffer) => messagesIn(bytes).map(() => undefined);
  return watchOf(socket, { read, isWithin: false }, 0);
}

/** Makes items of what the kernel sends at once. */
interface Reader<Item> {
  /** @throws {NetlinkError} */
  read(bytes: Buffer): readonly Item[];
  /** Whether an item has been read in part, so that the rest follows at once. */
  readonly isWithin: boolean;
}

function watchOf<Item>(socket: NetlinkSocket, reader: Reader<Item>, pauseMs: number): Watch<Item> {
  /** Whether messages are lost. The kernel says so once, and goes on to drop others until all that wait have been read. */
  let isLosing = false;
  const take = (): Events<Item> & { readonly reads: number } => {
    const items: Item[] = [];
    let [lost, reads] = [isLosing, 0];
    // What other processes send counts too: a flood of it must not hold up other events.
    for (; reads < MOST_AT_ONCE; reads += 1) {
      try {
        const bytes = socket.receive();
        if (bytes === undefined) {
          isLosing = false;
          break;
        }
        items.push(...reader.read(bytes));
      } catch (error) {
        if (!(error instanceof NetlinkError && error.code === 'ENOBUFS')) throw error;
        lost = isLosing = true;
      }
    }
    return { items, lost, reads };
  };
  return {
    async *[Symbol.asyncIterator]() {
      while (socket.isOpen) {
        const { items, lost, reads } = take();
        if (items.length > 0 || lost) yield { items, lost };
        if (!socket.isOpen) return;
        // The rest of a transaction follows at once. After anything else it pauses and reads again, before it waits for more.
        if (reads === 0 || reader.isWithin) await socket.readable();
        else if (pauseMs > 0) await delay(pauseMs);
      }
    },
    [Symbol.dispose]: () => socket.close(),
  };
}

/** The attribute with the name of the chain, in messages that have one. */
const CHAIN_NAME: Readonly<Record<number, number>> = {
  [NFT_MSG.newChain]: NFTA.chain.name,
  [NFT_MSG.deleteChain]: NFTA.chain.name,
  [NFT_MSG.newRule]: NFTA.rule.chain,
  [NFT_MSG.deleteRule]: NFTA.rule.chain,
};
const TABLES: readonly number[] = [NFT_MSG.newTable, NFT_MSG.deleteTable];

/** Reads all messages of nf_tables. What a transaction has touched is told when its generation comes, which ends it. */
export function createChangeReader(tables: readonly WatchedTable[]): Reader<TableChange> {
  const watched = tables.map((table) => {
    const { protocol } = NFPROTO[table.family];
    return { table, protocol, name: nameBytes(table.table), chains: table.chains?.map(nameBytes) };
  });
  const touched = new Set<WatchedTable>();
  const touch = (message: Message): void => {
    const attributes = attributesOf(message);
    const { bytes, start } = message.payload;
    const name = find(attributes, NFTA.table.name);
    const chainType = CHAIN_NAME[message.type];
    const isOfTable = TABLES.includes(message.type);
    for (const { table, protocol, name: watchedName, chains } of watched) {
      // A transaction can have 100,000 elements of one set.
      if (protocol !== bytes[start] || touched.has(table) || !isText(name, watchedName)) continue;
      const chain = chainType === undefined ? undefined : find(attributes, chainType);
      if (chains === undefined || isOfTable || chains.some((one) => isText(chain, one))) touched.add(table);
    }
  };
  return {
    get isWithin() {
      return touched.size > 0;
    },
    read(bytes) {
      return messagesIn(bytes).flatMap((message): readonly TableChange[] => {
        if (message.type !== NFT_MSG.newGeneration) touch(message);
        else if (touched.size > 0) {
          const { port } = message;
          const unnamed = isOwnPort(port) ? { process: undefined } : {};
          const change = { ...readGeneration(message), ...unnamed, port, touched: [...touched] };
          touched.clear();
          return [change];
        }
        return [];
      });
    },
  };
}

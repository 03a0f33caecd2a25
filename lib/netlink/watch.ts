import { setTimeout as delay } from 'node:timers/promises';
import { NetlinkError } from './error.ts';
import { endOf, type Family, messagesIn, NFGENMSG_BYTES, NFPROTO, NFT_MSG, seek } from './messages.ts';
import { type Generation, readGeneration } from './replies.ts';
import { NETLINK_NETFILTER, NETLINK_ROUTE, NetlinkSocket } from './socket.ts';

/** What has come since the last reading, and whether there was more that the kernel could not report. */
export interface Events<Item> {
  readonly items: readonly Item[];
  readonly lost: boolean;
}

/** Tells what comes until it is disposed; throws NetlinkError. While nobody asks, that waits in the kernel. */
export interface Watch<Item> extends AsyncIterable<Events<Item>>, Disposable {
  /** What has come until now. Nothing of it is told again. */
  drain(): Events<Item>;
}

/** The limit for messages that are read at once; the rest is read at the next turn. */
const MOST_AT_ONCE = 1_000;

/** RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR of linux/rtnetlink.h. */
const ADDRESS_GROUPS = [1, 5, 9];

/** A table, or some of its chains, whose changes are to be told. */
export interface WatchedTable {
  readonly family: Family;
  readonly table: string;
  /** Absent for the whole table. */
  readonly chains?: readonly string[];
}

/** What a transaction has changed in a watched table. */
export interface Touch {
  readonly family: Family;
  readonly table: string;
  /** Rules and their chains, elements of a set, or the table and its sets themselves. */
  readonly kind: 'rules' | 'elements' | 'objects';
  /** The set of the elements. */
  readonly set?: string | undefined;
}

/** A transaction that has changed something in a watched table. */
export interface TableChange extends Generation {
  /** The port of the netlink socket that has made it. */
  readonly port: number;
  readonly touched: readonly Touch[];
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
  const reader = createChangeReader(tables);
  return watchOf(socket, reader, PAUSE_MS);
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
  return watchOf(socket, (bytes) => messagesIn(bytes).map(() => undefined), 0);
}

function watchOf<Item>(
  socket: NetlinkSocket,
  read: (bytes: Buffer) => readonly Item[],
  pauseMs: number,
): Watch<Item> {
  const drain = (): Events<Item> & { readonly isEmpty: boolean } => {
    const items: Item[] = [];
    let [lost, reads] = [false, 0];
    // What other processes send counts too: a flood of it must not hold up other events.
    for (; reads < MOST_AT_ONCE; reads += 1) {
      try {
        const bytes = socket.receive();
        if (bytes === undefined) break;
        items.push(...read(bytes));
      } catch (error) {
        if (!(error instanceof NetlinkError && error.code === 'ENOBUFS')) throw error;
        lost = true;
      }
    }
    return { items, lost, isEmpty: reads === 0 };
  };
  return {
    drain,
    async *[Symbol.asyncIterator]() {
      while (socket.isOpen) {
        const { items, lost, isEmpty } = drain();
        if (items.length > 0 || lost) yield { items, lost };
        if (isEmpty) await socket.readable();
        else if (pauseMs > 0) await delay(pauseMs);
      }
    },
    [Symbol.dispose]: () => socket.close(),
  };
}

/** The attribute with the name of the chain, or of the set, in messages that have one; the name of the table is always 1. */
const CHAIN_NAME: Readonly<Record<number, number>> = {
  [NFT_MSG.newChain]: 3,
  [NFT_MSG.deleteChain]: 3,
  [NFT_MSG.newRule]: 2,
  [NFT_MSG.deleteRule]: 2,
};
const TABLE_NAME = 1;
const SET_NAME = 2;
const TABLES: readonly number[] = [NFT_MSG.newTable, NFT_MSG.deleteTable];
const ELEMENTS: readonly number[] = [NFT_MSG.newSetElement, NFT_MSG.deleteSetElement];

/** Reads all messages of nf_tables. What a transaction has touched is told when its generation comes, which ends it. */
export function createChangeReader(
  tables: readonly WatchedTable[],
): (bytes: Buffer) => readonly TableChange[] {
  const watched = tables.map((one) => ({
    ...one,
    protocol: NFPROTO[one.family].protocol,
    name: Buffer.from(`${one.table}\0`),
    chainNames: one.chains?.map((chain) => Buffer.from(`${chain}\0`)),
  }));
  let touched: Touch[] = [];
  /** Begins at the header of nfnetlink. The names are compared as bytes: most messages are about other tables. */
  const touchOf = (bytes: Buffer, type: number, start: number, end: number): Touch | undefined => {
    const attributes = start + NFGENMSG_BYTES;
    const isNamed = (name: Buffer, at: number) => at >= 0 && name.compare(bytes, at, endOf(bytes, at)) === 0;
    const table = seek(bytes, attributes, end, TABLE_NAME);
    const found = watched.find(({ protocol, name }) => protocol === bytes[start] && isNamed(name, table));
    if (found === undefined) return undefined;
    const { family, chainNames } = found;
    const chainType = CHAIN_NAME[type];
    if (chainNames !== undefined) {
      const chain = chainType === undefined ? -1 : seek(bytes, attributes, end, chainType);
      const isWatched = TABLES.includes(type) || chainNames.some((name) => isNamed(name, chain));
      return isWatched ? { family, table: found.table, kind: 'rules' } : undefined;
    }
    if (!ELEMENTS.includes(type))
      return { family, table: found.table, kind: chainType === undefined ? 'objects' : 'rules' };
    const set = seek(bytes, attributes, end, SET_NAME);
    const name = bytes.toString('utf8', set, endOf(bytes, set) - 1);
    return { family, table: found.table, kind: 'elements', set: name };
  };
  return (bytes) => {
    const changes: TableChange[] = [];
    for (const { type, port, payload } of messagesIn(bytes)) {
      const { start, end } = payload;
      if (type === NFT_MSG.newGeneration) {
        if (touched.length > 0)
          changes.push({ ...readGeneration({ type, port, sequence: 0, payload }), port, touched });
        touched = [];
      } else {
        const touch = touchOf(bytes, type, start, end);
        const isNew = (one: Touch) => !touched.some((known) => isSameTouch(known, one));
        if (touch !== undefined && isNew(touch)) touched.push(touch);
      }
    }
    return changes;
  };
}

function isSameTouch(a: Touch, b: Touch): boolean {
  return a.family === b.family && a.table === b.table && a.kind === b.kind && a.set === b.set;
}

import { setTimeout as delay } from 'node:timers/promises';
import type { Family } from '../cidr/address.ts';
import { NetlinkError } from './error.ts';
import { eachMessage, endOf, messagesIn, NFGENMSG_BYTES, NFPROTO, NFT_MSG, NFTA, seek } from './messages.ts';
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
    drain() {
      const { items, lost } = take();
      return { items, lost };
    },
    async *[Symbol.asyncIterator]() {
      while (socket.isOpen) {
        const { items, lost, reads } = take();
        if (items.length > 0 || lost) yield { items, lost };
        if (!socket.isOpen) return;
        if (reads === 0 || reader.isWithin) await socket.readable();
        else if (pauseMs > 0) await delay(pauseMs);
      }
    },
    [Symbol.dispose]: () => socket.close(),
  };
}

/** The attribute with the name of the chain, or of the set, in messages that have one. */
const CHAIN_NAME: Readonly<Record<number, number>> = {
  [NFT_MSG.newChain]: NFTA.chain.name,
  [NFT_MSG.deleteChain]: NFTA.chain.name,
  [NFT_MSG.newRule]: NFTA.rule.chain,
  [NFT_MSG.deleteRule]: NFTA.rule.chain,
};
const TABLES: readonly number[] = [NFT_MSG.newTable, NFT_MSG.deleteTable];
const ELEMENTS: readonly number[] = [NFT_MSG.newSetElement, NFT_MSG.deleteSetElement];

/** A watched table as the kernel names it. */
interface WatchedBytes extends WatchedTable {
  readonly protocol: number;
  readonly name: Buffer;
  readonly chainNames: readonly Buffer[] | undefined;
}

/**
 * Reads all messages of nf_tables. What a transaction has touched is told when its generation comes, which ends it. Most
 * messages are about other tables: nothing is made for these, neither objects nor texts.
 */
export function createChangeReader(tables: readonly WatchedTable[]): Reader<TableChange> {
  const nameOf = (text: string) => Buffer.from(`${text}\0`);
  const watched = tables.map((one): WatchedBytes => {
    const { protocol } = NFPROTO[one.family];
    return { ...one, protocol, name: nameOf(one.table), chainNames: one.chains?.map(nameOf) };
  });
  let touched: Touch[] = [];
  const touch = (bytes: Buffer, type: number, start: number, end: number): void => {
    const attributes = start + NFGENMSG_BYTES;
    const table = seek(bytes, attributes, end, NFTA.table.name);
    for (const one of watched) {
      if (one.protocol !== bytes[start] || !isNamed(bytes, table, one.name)) continue;
      const found = touchOf(one, bytes, type, attributes, end);
      if (found !== undefined && !touched.some((known) => isSameTouch(known, found))) touched.push(found);
    }
  };
  return {
    get isWithin() {
      return touched.length > 0;
    },
    read(bytes) {
      const changes: TableChange[] = [];
      eachMessage(bytes, (type, port, start, end) => {
        if (type !== NFT_MSG.newGeneration) return touch(bytes, type, start, end);
        if (touched.length === 0) return;
        const generation = readGeneration({ type, port, sequence: 0, payload: { bytes, start, end } });
        changes.push({ ...generation, port, touched });
        touched = [];
      });
      return changes;
    },
  };
}

/** What a message about a watched table says; undefined if it is about none of the watched chains. */
function touchOf(
  { family, table, chainNames }: WatchedBytes,
  bytes: Buffer,
  type: number,
  start: number,
  end: number,
): Touch | undefined {
  const chainType = CHAIN_NAME[type];
  if (chainNames !== undefined) {
    const chain = chainType === undefined ? -1 : seek(bytes, start, end, chainType);
    const isWatched = TABLES.includes(type) || chainNames.some((name) => isNamed(bytes, chain, name));
    return isWatched ? { family, table, kind: 'rules' } : undefined;
  }
  if (!ELEMENTS.includes(type)) return { family, table, kind: chainType === undefined ? 'objects' : 'rules' };
  const set = seek(bytes, start, end, NFTA.set.name);
  return { family, table, kind: 'elements', set: bytes.toString('utf8', set, endOf(bytes, set) - 1) };
}

/** Whether a payload that `seek` has looked for is there, and is this name. */
function isNamed(bytes: Buffer, payload: number, name: Buffer): boolean {
  if (payload < 0 || endOf(bytes, payload) - payload !== name.length) return false;
  for (let index = 0; index < name.length; index += 1)
    if (bytes[payload + index] !== name[index]) return false;
  return true;
}

function isSameTouch(a: Touch, b: Touch): boolean {
  return a.family === b.family && a.table === b.table && a.kind === b.kind && a.set === b.set;
}

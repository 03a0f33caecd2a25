import type { Family } from '../cidr/address.ts';
import type { ChainName } from '../netlink/change.ts';
import { NetlinkError } from '../netlink/error.ts';
import { NfTables } from '../netlink/nf-tables.ts';
import {
  type Events,
  openChangeWatch,
  type TableChange,
  type Watch,
  type WatchedTable,
} from '../netlink/watch.ts';

/** What the dataplanes ask of nf_tables over netlink. */
export interface Requests extends Omit<NfTables, typeof Symbol.dispose | 'port'>, Partial<Disposable> {
  /** The port of the socket that makes changes; undefined if none is open. */
  readonly port?: number | undefined;
}

/** The netlink sockets of this network namespace. Both fail with NetlinkError. */
export interface NetlinkSockets {
  openRequests(): Requests;
  openWatch(tables: readonly WatchedTable[]): Watch<TableChange>;
}

/** Those of the network namespace that this process is in. */
export const ownSockets: NetlinkSockets = {
  openRequests: () => new NfTables(),
  openWatch: openChangeWatch,
};

/** Learns whether netlink works: called at first, and when that changes. */
type OnState = (failure: NetlinkError | undefined) => void;

/** After so long without a failure, netlink works again: requests may succeed while the watch fails. */
const CALM_MS = 600_000;

/**
 * nf_tables over netlink. The nftables dataplane needs it. iptables can do without it, but then hears no events, reads each time, and
 * does not see what makes `nat` useless. All failures are NetlinkErrors that are thrown.
 */
export class Netlink implements Disposable {
  readonly #sockets: NetlinkSockets;
  readonly #onState: OnState;
  #requests: Requests | undefined;
  #state: 'new' | 'works' | 'fails' = 'new';
  #failure: NetlinkError | undefined;
  #failedAt = 0;
  #isUnavailableForGood = false;

  constructor(sockets: NetlinkSockets, onState: OnState) {
    this.#sockets = sockets;
    this.#onState = onState;
  }

  /** @throws {NetlinkError} */
  async use<Answer>(use: (requests: Requests) => Promise<Answer>): Promise<Answer> {
    if (this.#isUnavailableForGood && this.#failure !== undefined) throw this.#failure;
    try {
      this.#requests ??= this.#sockets.openRequests();
      const answer = await use(this.#requests);
      this.#succeed();
      return answer;
    } catch (error) {
      this.noteFailure(error);
      throw error;
    }
  }

  /** Whether the chain is there; undefined if there is no answer now. */
  async has(name: ChainName): Promise<boolean | undefined> {
    const chain = this.use(async (requests) => (await requests.chain(name)) !== undefined);
    return await chain.catch(noAnswer);
  }

  /**
   * The generation of nf_tables. Of each later change an event tells, unless a table goes with the process that owns it.
   *
   * @throws {NetlinkError}
   */
  async generation(): Promise<number> {
    return await this.use(async (requests) => (await requests.generation()).id);
  }

  /**
   * Watches tables until it is disposed. Iterating makes it go on, and yields nothing of use: `tell` gets the changes.
   *
   * @param tell gets the changes of other programs, and of the programs that the agent starts. Of a table that is watched alone it
   * gets no change, but that there may be more: no reading of the agent's rules covers that, and nobody has changed them
   * @throws {NetlinkError}
   */
  watch(
    tables: readonly WatchedTable[],
    tell: (events: Events<TableChange>) => void,
  ): AsyncIterable<unknown> & Disposable {
    const watch = this.#sockets.openWatch(tables);
    const hear = ({ items, lost }: Events<TableChange>) => {
      const foreign = items.filter(({ port }) => port !== this.#requests?.port);
      const ofRules = foreign.filter(({ touched }) => !touched.every(isTableAlone));
      const mayBeMore = lost || foreign.some(({ touched }) => touched.some(isTableAlone));
      if (mayBeMore || ofRules.length > 0) tell({ items: ofRules, lost: mayBeMore });
    };
    return {
      async *[Symbol.asyncIterator]() {
        for await (const events of watch) yield hear(events);
      },
      [Symbol.dispose]: () => watch[Symbol.dispose](),
    };
  }

  /** Whether netlink will never work in this process. */
  get isUnavailableForGood(): boolean {
    return this.#isUnavailableForGood;
  }

  /** The last failure; undefined if there was none. */
  get failure(): NetlinkError | undefined {
    return this.#failure;
  }

  /** Takes note of a failure of netlink; throws every other error. */
  noteFailure(error: unknown): void {
    if (!(error instanceof NetlinkError)) throw error;
    // The kernel has answered.
    if (['interrupted', 'limit', 'changed'].includes(error.failure) || error.at !== undefined) return;
    this.#isUnavailableForGood ||= error.failure === 'unsupported' || error.failure === 'denied';
    this.#failure = error;
    this.#failedAt = performance.now();
    if (this.#state === 'fails') return;
    this.#state = 'fails';
    this.#onState(error);
  }

  [Symbol.dispose](): void {
    this.#requests?.[Symbol.dispose]?.();
  }

  #succeed(): void {
    if (this.#state === 'works' || this.#isUnavailableForGood) return;
    if (this.#state === 'fails' && performance.now() - this.#failedAt < CALM_MS) return;
    this.#state = 'works';
    this.#onState(undefined);
  }
}

function isTableAlone({ chains }: WatchedTable): boolean {
  return chains?.length === 0;
}

/** Why netlink does not work, in words. */
export function whyNoNetlink(netlink: Netlink | undefined): string {
  return netlink?.failure?.message ?? 'there is none';
}

/** For whoever can do without netlink: no answer in place of a failure. Throws every other error. */
export function noAnswer(error: unknown): undefined {
  if (!(error instanceof NetlinkError)) throw error;
}

interface Reading<Found> {
  readonly found: Found;
  /** The generation of nf_tables before; undefined if it is unknown, or may have other rules too. */
  readonly generation: number | undefined;
}

/**
 * Reads a family again only if anything in nf_tables has changed: an unchanged generation means unchanged rules. There are two
 * exceptions, of which the kernel makes neither a generation nor an event. It deletes a table with the process that owns it. And it
 * shows the flags of a table, such as dormant, before the transaction that sets them, which may still fail.
 *
 * @param isBlocked whether what was found keeps the agent from writing: then nothing that is found in this generation is kept
 */
export function readIfChanged<Found>(
  generationNow: () => Promise<number | undefined>,
  read: (family: Family, generation: number | undefined) => Promise<Found>,
  isBlocked: (found: Found) => boolean,
): (family: Family) => Promise<Reading<Found>> {
  const last = new Map<Family, Reading<Found>>();
  return async (family) => {
    const generation = await generationNow();
    const known = last.get(family);
    const isSame = generation !== undefined && known?.generation === generation;
    if (isSame && !isBlocked(known.found)) return known;
    const found = await read(family, generation);
    if (isSame) return { found, generation: undefined };
    const reading = { found, generation };
    last.set(family, reading);
    return reading;
  };
}

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
import { SET, TABLE } from './nftables/names.ts';
import type { Backend } from './options.ts';

/** What the dataplanes ask of nf_tables over netlink. */
export interface Requests extends Omit<NfTables, typeof Symbol.dispose | 'port'> {
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

/** What may have changed: nothing, the agent's rules but not the elements of its set of destinations, or these too. */
export type Touched = { readonly rules: boolean; readonly elements: boolean } | 'unknown';

const UNTOUCHED: Touched = { rules: false, elements: false };

/**
 * nf_tables over netlink. The nftables dataplane needs it; for iptables it is only faster than the tools: whoever gets no answer
 * here asks a tool. All failures are NetlinkErrors that are thrown.
 */
export class Netlink {
  readonly #sockets: NetlinkSockets;
  readonly #onState: OnState;
  #requests: Requests | undefined;
  #state: 'new' | 'works' | 'fails' = 'new';
  #failure: NetlinkError | undefined;
  #failedAt = 0;
  #isUnavailableForGood = false;
  #watch: Watch<TableChange> | undefined;
  #tell: (events: Events<TableChange>) => void = () => {};
  /** By family and dataplane. */
  readonly #touched = new Map<string, Touched>();
  /** Ports of sockets that have made changes, of which events may still wait. */
  readonly #ownPorts = new Set<number | undefined>();

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
      this.#ownPorts.add(this.#requests.port);
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
   * What other programs have changed in the agent's rules in a dataplane since the last call, until now, iptables-restore
   * included; unknown without a watch, or if events were lost.
   */
  takeTouched(family: Family, backend: Backend): Touched {
    if (this.#watch === undefined) return 'unknown';
    try {
      const events = this.#watch.drain();
      if (events.lost || events.items.length > 0) this.#hear(events);
      // After an error a socket is closed, and another program may get its port: only events that waited until now are its.
      this.#ownPorts.clear();
      this.#ownPorts.add(this.#requests?.port);
    } catch (error) {
      this.noteFailure(error);
      this.#watch[Symbol.dispose]();
      this.#watch = undefined;
      return 'unknown';
    }
    const touched = this.#touched.get(`${family} ${backend}`) ?? 'unknown';
    this.#touched.set(`${family} ${backend}`, UNTOUCHED);
    return touched;
  }

  /**
   * Watches tables until it is disposed. What it iterates over only shows that it goes on.
   *
   * @param tell gets the changes of other programs, and of the programs that the agent starts
   * @throws {NetlinkError}
   */
  watch(
    tables: readonly WatchedTable[],
    tell: (events: Events<TableChange>) => void,
  ): AsyncIterable<unknown> & Disposable {
    const watch = this.#sockets.openWatch(tables);
    // What has changed before is not known.
    this.#touched.clear();
    this.#watch = watch;
    this.#tell = tell;
    const hear = (events: Events<TableChange>) => this.#hear(events);
    return {
      async *[Symbol.asyncIterator]() {
        for await (const events of watch) yield hear(events);
      },
      [Symbol.dispose]: () => {
        this.#watch = undefined;
        watch[Symbol.dispose]();
      },
    };
  }

  /** Takes note of changes, but not of those that this object has made itself. */
  #hear({ items, lost }: Events<TableChange>): void {
    const foreign = items.filter(({ port }) => port !== this.#requests?.port && !this.#ownPorts.has(port));
    if (lost) this.#touched.clear();
    for (const { family, table, kind, set } of foreign.flatMap(({ touched }) => touched)) {
      const place = `${family} ${table === 'nat' ? 'iptables' : 'nftables'}`;
      const before = this.#touched.get(place);
      if (before === undefined || before === 'unknown') continue;
      // A set that was made again holds other elements.
      const elements = kind === 'objects' || (set === SET && table === TABLE);
      this.#touched.set(place, { rules: true, elements: before.elements || elements });
    }
    if (lost || foreign.length > 0) this.#tell({ items: foreign, lost });
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
    if (error.failure === 'interrupted' || error.failure === 'changed' || error.at !== undefined) return;
    this.#isUnavailableForGood ||= error.failure === 'unsupported' || error.failure === 'denied';
    this.#failure = error;
    this.#failedAt = performance.now();
    if (this.#state === 'fails') return;
    this.#state = 'fails';
    this.#onState(error);
  }

  #succeed(): void {
    if (this.#state === 'works' || this.#isUnavailableForGood) return;
    if (this.#state === 'fails' && performance.now() - this.#failedAt < CALM_MS) return;
    this.#state = 'works';
    this.#onState(undefined);
  }
}

/** For whoever can do without netlink: no answer in place of a failure. Throws every other error. */
export function noAnswer(error: unknown): undefined {
  if (!(error instanceof NetlinkError)) throw error;
}

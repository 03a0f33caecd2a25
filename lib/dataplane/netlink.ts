import type { Family } from '../cidr/address.ts';
import type { ChainName } from '../netlink/change.ts';
import { NetlinkError } from '../netlink/error.ts';
import { NfTables } from '../netlink/nf-tables.ts';
import type { Generation } from '../netlink/replies.ts';
import { openChangeWatch, type Watch } from '../netlink/watch.ts';

/** What the dataplanes ask of nf_tables over netlink. */
export type Requests = Omit<NfTables, typeof Symbol.dispose>;

/** The netlink sockets of this network namespace. Both fail with NetlinkError. */
export interface NetlinkSockets {
  openRequests(): Requests;
  openWatch(): Watch<Generation>;
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

/** What may have changed of the agent's table: elements of its set of destinations, or anything else. */
export type Touched = { readonly elements: boolean; readonly others: boolean } | 'unknown';

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
  #isOver = false;

  constructor(sockets: NetlinkSockets, onState: OnState) {
    this.#sockets = sockets;
    this.#onState = onState;
  }

  /** @throws {NetlinkError} */
  async use<Answer>(use: (requests: Requests) => Promise<Answer>): Promise<Answer> {
    if (this.#isOver && this.#failure !== undefined) throw this.#failure;
    try {
      this.#requests ??= this.#sockets.openRequests();
      const answer = await use(this.#requests);
      this.#succeed();
      return answer;
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  /** Whether the chain is there; undefined if there is no answer now. */
  async has(name: ChainName): Promise<boolean | undefined> {
    const chain = this.use(async (requests) => (await requests.chain(name)) !== undefined);
    return await chain.catch(noAnswer);
  }

  /** What other programs have changed of the agent's table since the last call; unknown without a watch. */
  takeTouched(_family: Family): Touched {
    return 'unknown';
  }

  /** @throws {NetlinkError} */
  watch(): Watch<Generation> {
    return this.#sockets.openWatch();
  }

  /** Whether netlink will never work in this process. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The last failure; undefined if there was none. */
  get failure(): NetlinkError | undefined {
    return this.#failure;
  }

  /** Takes note of a failure of netlink; throws every other error. */
  fail(error: unknown): void {
    if (!(error instanceof NetlinkError)) throw error;
    // The kernel has answered.
    if (error.failure === 'interrupted' || error.failure === 'changed' || error.at !== undefined) return;
    this.#isOver ||= error.failure === 'unsupported' || error.failure === 'denied';
    this.#failure = error;
    this.#failedAt = performance.now();
    if (this.#state === 'fails') return;
    this.#state = 'fails';
    this.#onState(error);
  }

  #succeed(): void {
    if (this.#state === 'works' || this.#isOver) return;
    if (this.#state === 'fails' && performance.now() - this.#failedAt < CALM_MS) return;
    this.#state = 'works';
    this.#onState(undefined);
  }
}

/** For whoever can do without netlink: no answer in place of a failure. Throws every other error. */
export function noAnswer(error: unknown): undefined {
  if (!(error instanceof NetlinkError)) throw error;
}

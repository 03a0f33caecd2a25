import { NetlinkError } from '../netlink/error.ts';
import { type ChainName, NfTables } from '../netlink/nf-tables.ts';
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

/**
 * nf_tables over netlink, as long as that works. It is only faster than the tools: whoever gets no answer here asks a
 * tool.
 */
export class Netlink {
  readonly #sockets: NetlinkSockets;
  readonly #onState: OnState;
  #requests: Requests | undefined;
  #state: 'new' | 'works' | 'fails' = 'new';
  #failedAt = 0;
  #hasGivenUp = false;
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(sockets: NetlinkSockets, onState: OnState) {
    this.#sockets = sockets;
    this.#onState = onState;
  }

  /** The answer; undefined if there is none now. */
  async ask<Answer>(use: (requests: Requests) => Promise<Answer>): Promise<Answer | undefined> {
    if (this.#hasGivenUp) return undefined;
    try {
      this.#requests ??= this.#sockets.openRequests();
      const answer = await use(this.#requests);
      this.#succeed();
      return answer;
    } catch (error) {
      this.noteFailure(error);
      return undefined;
    }
  }

  /** Whether the chain is there; undefined if there is no answer now. */
  async has(name: ChainName): Promise<boolean | undefined> {
    return (await this.ask(async (requests) => ({ has: (await requests.chain(name)) !== undefined })))?.has;
  }

  /**
   * Changes the kernel, or nothing. One change follows the other, as in the kernel: otherwise each would take the other for
   * that of another program.
   *
   * @returns the generations of nf_tables before and after it, or the failure
   */
  async change(
    use: (requests: Requests) => Promise<void>,
  ): Promise<{ readonly before: number; readonly after: number } | NetlinkError> {
    const turn = this.#lastChange.then(async () => {
      try {
        this.#requests ??= this.#sockets.openRequests();
        const { id: before } = await this.#requests.generation();
        await use(this.#requests);
        const { id: after } = await this.#requests.generation();
        return { before, after };
      } catch (error) {
        if (!(error instanceof NetlinkError)) throw error;
        return error;
      }
    });
    this.#lastChange = turn.catch(() => {});
    return await turn;
  }

  /** @throws {NetlinkError} */
  watch(): Watch<Generation> {
    return this.#sockets.openWatch();
  }

  /** Whether netlink will never work in this process. */
  get hasGivenUp(): boolean {
    return this.#hasGivenUp;
  }

  /** Takes note of a failure of netlink; throws every other error. */
  noteFailure(error: unknown): void {
    if (!(error instanceof NetlinkError)) throw error;
    // Too many changes by others: netlink works.
    if (error.failure === 'interrupted') return;
    this.#hasGivenUp ||= error.failure === 'unsupported' || error.failure === 'denied';
    this.#failedAt = performance.now();
    if (this.#state === 'fails') return;
    this.#state = 'fails';
    this.#onState(error);
  }

  #succeed(): void {
    if (this.#state === 'works' || this.#hasGivenUp) return;
    if (this.#state === 'fails' && performance.now() - this.#failedAt < CALM_MS) return;
    this.#state = 'works';
    this.#onState(undefined);
  }
}

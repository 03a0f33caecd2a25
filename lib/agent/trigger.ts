/** Why a sync happens. */
export type SyncReason = 'start' | 'change' | 'resync' | 'signal';

/** What a sync reacts to. */
export interface Wake {
  readonly reason: SyncReason;
  /** When the event came, as performance.now() has it. */
  readonly since: number;
}

/** Holds back what happens while a sync runs: however many events, they lead to exactly one more sync. */
export class Trigger {
  #pending: Wake | undefined;
  #wake: (() => void) | undefined;

  /** Something has happened; unless something else has before that nobody has reacted to yet. */
  fire(reason: SyncReason): void {
    this.#pending ??= { reason, since: performance.now() };
    this.#wake?.();
  }

  /** The first event since the last call, or `resync` after so many milliseconds; undefined once aborted. */
  async next(ms: number, signal: AbortSignal): Promise<Wake | undefined> {
    if (this.#pending === undefined && !signal.aborted) await this.#sleep(ms, signal);
    const pending = this.#pending;
    this.#pending = undefined;
    return signal.aborted ? undefined : (pending ?? { reason: 'resync', since: performance.now() });
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        this.#wake = undefined;
        resolve();
      };
      const timer = setTimeout(wake, ms);
      signal.addEventListener('abort', wake);
      this.#wake = wake;
    });
  }
}

/** So long the kernel may lack the rules until the agent is not ready, and so long it must hold them until it is again. */
const PATIENCE_MS = 5_000;

/** Not ready: not in sync for 5 s, until it has been for 5 s. Times are those of performance.now(). */
export class OutOfSync {
  /** When the kernel was found not to hold the policy, after it had for a while. */
  #since = Number.POSITIVE_INFINITY;
  /** Since when it does; undefined if it does not. */
  #inSyncSince: number | undefined = Number.NEGATIVE_INFINITY;
  #why = '';

  /** The kernel does not hold the policy, or that cannot be told. */
  begin(why: string, at: number): void {
    if (at - (this.#inSyncSince ?? at) >= PATIENCE_MS) this.#since = at;
    this.#since = Math.min(this.#since, at);
    this.#inSyncSince = undefined;
    this.#why = why;
  }

  /**
   * The kernel holds the policy.
   *
   * @param why what had changed the rules; undefined if nothing had
   */
  end(why: string | undefined, at: number): void {
    if (why !== undefined) this.begin(why, at);
    else if (at - this.#since < PATIENCE_MS) this.#since = Number.POSITIVE_INFINITY;
    this.#inSyncSince ??= at;
  }

  /** Why traffic cannot rely on the rules; undefined if it can. */
  reason(now: number): string | undefined {
    const until = this.#inSyncSince ?? now;
    return until - this.#since >= PATIENCE_MS && now - until < PATIENCE_MS ? this.#why : undefined;
  }
}

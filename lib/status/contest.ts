import type { ReconcileEvent } from '../agent/loop.ts';

/** So long no sync finds the policy in the kernel until traffic cannot rely on it, and so long it is calm afterwards. */
const CONTESTED_MS = 5_000;

/**
 * Whether the rules are contested: another program changes them so often that for some time no sync finds them untouched.
 * Then the agent is not ready. A fight is something else: so many repairs in a row that the log tells of them
 * (`warnOfFight`), also if traffic can rely on the rules in between. Times are those of performance.now().
 */
export class Contest {
  /** The first sync after the last good one that has not found the policy. */
  #since: number | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;
  #isContested = false;
  #inSync = true;
  #by: readonly string[] = [];

  onReconcile({ wasUntouched, inSync, by }: ReconcileEvent, now: number): void {
    this.isContested(now);
    this.#inSync = inSync;
    if (wasUntouched && inSync) {
      this.#since = undefined;
      return;
    }
    this.#since ??= now;
    this.#lastAt = now;
    this.#by = by ?? [];
    this.#isContested ||= now - this.#since >= CONTESTED_MS;
  }

  /** Whether the rules are contested, until they stay unchanged for a while. */
  isContested(now: number): boolean {
    if (!this.#inSync) this.#isContested ||= now - (this.#since ?? now) >= CONTESTED_MS;
    else if (now - this.#lastAt >= CONTESTED_MS) {
      this.#isContested = false;
      this.#since = undefined;
    }
    return this.#isContested;
  }

  /** The programs that may do it, as the kernel names them. */
  get by(): readonly string[] {
    return this.#by;
  }
}

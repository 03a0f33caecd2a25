import type { ReconcileEvent } from '../agent/observer.ts';
import { programs } from '../text/programs.ts';

/** So long no sync finds the policy in the kernel until traffic cannot rely on it, and so long it is calm afterwards. */
const CONTESTED_MS = 5_000;

/**
 * Whether the rules are contested: for some time the kernel does not hold them, because a repair fails or takes long, or they cannot
 * be read, or another program changes them so often that no sync finds them untouched. Then the agent is not ready. A fight is something else: so
 * many repairs in a row that the log tells of them (`warnOfFight`), also if traffic can rely on the rules in between. Times are
 * those of performance.now().
 */
export class Contest {
  /** The first sync after the last good one that has not found the policy. */
  #since: number | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;
  #isContested = false;
  /** What the last reading has found; undefined if the next one fails. */
  #inSync: boolean | undefined = true;
  #by: readonly string[] = [];
  /** Why the last reading or repair has failed. */
  #failure: string | undefined;

  /** A sync has found that the kernel does not hold the policy, and begins to write it. */
  onDifference(now: number): void {
    this.isContested(now);
    this.#inSync = false;
    this.#since ??= now;
  }

  /**
   * An attempt to read or to write the rules has failed.
   *
   * @param since when it began
   */
  onRetry(failure: string, since: number): void {
    this.#failure = failure;
    if (this.#inSync !== true) return;
    this.isContested(since);
    this.#inSync = undefined;
    this.#since ??= since;
  }

  onReconcile({ wasUntouched, inSync, by }: ReconcileEvent, now: number): void {
    this.isContested(now);
    this.#inSync = inSync;
    this.#failure = undefined;
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
    if (this.#inSync !== true) this.#isContested ||= now - (this.#since ?? now) >= CONTESTED_MS;
    else if (now - this.#lastAt >= CONTESTED_MS) {
      this.#isContested = false;
      this.#since = undefined;
    }
    return this.#isContested;
  }

  /** Why they are contested, and what to do. */
  get reason(): string {
    const what =
      this.#inSync === undefined
        ? 'the agent cannot read its rules'
        : "the kernel does not hold the agent's rules";
    if (this.#failure !== undefined) return `${what}: ${this.#failure}`;
    if (this.#lastAt < (this.#since ?? 0))
      return "the kernel does not hold the agent's rules yet: the repair has not ended; find out what iptables-restore, or the kernel, waits for";
    return `${programs(this.#by)} changes the agent's rules again and again; find the program, or the second agent, that writes them`;
  }
}

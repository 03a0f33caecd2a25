import { addAbortListener } from 'node:events';
import type { Family } from '../cidr/address.ts';
import type { Events, TableChange } from '../netlink/watch.ts';
import { resyncAt, type State } from './state.ts';

/** Why a round happens, and whether it reads the config files then. Those that do not concern the node alone. */
export const ROUND_REASONS = {
  start: { readsConfig: true, meaning: 'the agent has started' },
  change: { readsConfig: true, meaning: 'the config directory has changed' },
  resync: {
    readsConfig: true,
    meaning: '`resyncInterval` or `--vanished-grace` has passed, or the time of a pending config has come',
  },
  signal: { readsConfig: true, meaning: 'the agent has got SIGHUP' },
  kernel: {
    readsConfig: false,
    meaning:
      "another program may have changed the agent's rules: events of nf_tables say so or were lost, the watch of nf_tables has just begun, or the last round did not end in sync; or, with `--backend=auto`, kube-proxy's table has come or gone",
  },
  addresses: { readsConfig: false, meaning: "the node's addresses have changed" },
} as const;

export type Reason = keyof typeof ROUND_REASONS;

/** What sources add. The others follow from the state, and from changes of nf_tables. */
type AddedReason = Exclude<Reason, 'kernel' | 'resync'>;

/** The reasons of a round: the first of those that ask for most, and who may have changed the agent's rules. */
export interface Trigger {
  readonly reason: Reason;
  /** When it came, in milliseconds of performance.now(). */
  readonly since: number;
  /** The programs that may have changed the agent's rules, as the kernel names them. */
  readonly by?: readonly string[] | undefined;
}

/** What the state says about the next round. Times are those of performance.now(). */
export interface Schedule {
  /** When a round with the reason `resync` is due: the interval, the end of the grace of a file that is gone, a time in the rollout window. */
  readonly resyncAt: number;
  /** When the pause after the last round ends; changes of the kernel and of the node's addresses wait for it. */
  readonly pauseEndsAt: number;
  /** When the last round has ended without the kernel in sync; undefined if it is, or may be. */
  readonly outOfSyncAt: number | undefined;
  /** The generations of nf_tables in which the last round has found the families in sync. */
  readonly covered: ReadonlyMap<Family, number | undefined>;
}

/**
 * The pause after a round is so many times as long. So the first event of a burst leads to a round at once, and all others to one for
 * each pause: however many changes other programs make, rounds that take less than 0.2 s take a tenth of a core.
 */
const PAUSE_TIMES = 10;
const LONGEST_PAUSE_MS = 2_000;

/** Many programs may act before there is a round: those of so many changes are named. */
const MOST_NAMED = 8;

/** Milliseconds of the pause after a round that has worked for so long, or was blocked. */
export function pauseAfter(worked: number, blocked: object | undefined): number {
  return blocked === undefined ? Math.min(PAUSE_TIMES * worked, LONGEST_PAUSE_MS) : LONGEST_PAUSE_MS;
}

export function scheduleOf(state: State, resyncInterval: number): Schedule {
  const { endedAt, pauseEndsAt = Number.NEGATIVE_INFINITY, inSync } = state.lastRound ?? {};
  const pendingAt = state.pending?.dueAt ?? Number.POSITIVE_INFINITY;
  return {
    resyncAt: Math.min(resyncAt(state, resyncInterval), Math.max(pendingAt, pauseEndsAt)),
    pauseEndsAt,
    // Nobody may tell of the change that the round has met.
    outOfSyncAt: inSync === false ? endedAt : undefined,
    covered: new Map(Array.from(state.families, ([family, { generation }]) => [family, generation])),
  };
}

/** A change of the rules of a family, and its generation of nf_tables. */
interface Change {
  readonly family: Family;
  readonly id: number;
  /** Undefined of one of many programs, of the agent, and of its tools. */
  readonly program: string | undefined;
}

/**
 * The reasons for the next round, which sources add. An event tells that something may have changed, not what: all that come
 * before the round begins lead to one.
 */
export class Reasons {
  readonly #since = new Map<AddedReason, number>();
  /** The last change of each family by each program that is named, and by all others together. */
  readonly #changes = new Map<string, Change>();
  #changedAt: number | undefined;
  /** Whether changes of the kernel were lost. */
  #isBlind = false;
  #wake = (): void => {};

  constructor() {
    this.add('start');
  }

  add(reason: AddedReason): void {
    if (!this.#since.has(reason)) this.#since.set(reason, performance.now());
    this.#wake();
  }

  /** Adds changes of nf_tables, which are a reason unless the last round has covered them. */
  addChanges({ items, lost }: Events<TableChange>): void {
    this.#changedAt ??= performance.now();
    this.#isBlind ||= lost;
    for (const { id, process: program, touched } of items)
      for (const { family } of touched) {
        const key = `${family} ${program}`;
        const isNamed = this.#changes.has(key) || this.#changes.size < MOST_NAMED;
        if (isNamed) this.#changes.set(key, { family, id, program });
        else this.#changes.set(family, { family, id, program: undefined });
      }
    this.#wake();
  }

  /** Waits until there is a reason, and takes all; undefined after the signal. */
  async take(schedule: Schedule, signal: AbortSignal): Promise<Trigger | undefined> {
    while (!signal.aborted) {
      const changes = this.#uncovered(schedule);
      if (changes.length === 0 && !this.#isBlind) this.#changedAt = undefined;
      const trigger = this.#due(schedule);
      if (typeof trigger === 'number') {
        await this.#sleep(Math.max(0, trigger - performance.now()), signal);
        continue;
      }
      this.#since.clear();
      this.#changes.clear();
      [this.#isBlind, this.#changedAt] = [false, undefined];
      return { ...trigger, by: [...new Set(changes.flatMap(({ program }) => program ?? []))] };
    }
    return undefined;
  }

  /** The trigger that is due, or when the next one is. */
  #due({ resyncAt, pauseEndsAt, outOfSyncAt }: Schedule): Trigger | number {
    // A reading of the config files includes a reading of the kernel.
    const [first, ...others] = [...this.#since].filter(([reason]) => ROUND_REASONS[reason].readsConfig);
    // SIGHUP asks for most: with it, no change waits for the rollout window.
    const isSignal = others.some(([reason]) => reason === 'signal');
    if (first !== undefined) return { reason: isSignal ? 'signal' : first[0], since: first[1] };
    const now = performance.now();
    // What changes the rules or the addresses all the time must not put off the reading of the config files.
    if (now >= resyncAt) return { reason: 'resync', since: now };
    const never = Number.POSITIVE_INFINITY;
    const [[ofNode, at] = [undefined, never]] = this.#since;
    const since = Math.min(at, this.#changedAt ?? never, outOfSyncAt ?? never);
    const dueAt = Math.max(since, pauseEndsAt);
    if (now < dueAt) return Math.min(dueAt, resyncAt);
    return { reason: ofNode ?? 'kernel', since };
  }

  /** The changes that no round has covered. */
  #uncovered({ covered }: Schedule): readonly Change[] {
    return [...this.#changes.values()].filter(({ family, id }) => {
      const last = covered.get(family);
      // Generations have 32 bits, and begin again at 0.
      return last === undefined || ((id - last) | 0) > 0;
    });
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    using _ = addAbortListener(signal, () => resolve());
    const timer = setTimeout(resolve, ms);
    this.#wake = resolve;
    await promise;
    clearTimeout(timer);
  }
}

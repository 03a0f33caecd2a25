import { addAbortListener } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Netlink } from '../dataplane/netlink.ts';
import type { Notices } from '../log/notices.ts';
import { NetlinkError } from '../netlink/error.ts';
import { openAddressWatch, type WatchedTable } from '../netlink/watch.ts';
import type { Reasons } from './reasons.ts';

/** Changes of so many milliseconds lead to one round: each pod that starts changes links and addresses too. */
const PAUSE_MS = 100;

/** An address that comes and goes leads to rarer rounds, until it stays for so long. */
const LONGEST_PAUSE_MS = 800;
const CALM_MS = 10_000;

/** The pause after a look at very many addresses is so many times as long, as that after a round. */
const PAUSE_TIMES = 10;
const LONGEST_REST_MS = 2_000;

interface WatchOptions<Event> {
  /** Begins to watch; may throw. */
  readonly open: () => AsyncIterable<Event> & Disposable;
  /** The watch has begun: what came before is not told. */
  readonly onStart: () => void;
  /** The next event waits for its end. Absent if to open the watch is enough. */
  readonly onEvent?: (event: Event) => Promise<void>;
  /** Takes note of a failure, and returns whether to begin again. What it throws ends the watch. */
  readonly onFailure: (error: unknown) => boolean;
  /** Milliseconds until a watch that has failed begins again. */
  readonly interval: () => number;
  readonly signal: AbortSignal;
}

/** Watches until the signal. If that fails, it begins again after the interval. */
export async function keepWatching<Event>(options: WatchOptions<Event>): Promise<void> {
  const { open, onStart, onEvent, onFailure, interval, signal } = options;
  while (!signal.aborted) {
    try {
      using watch = open();
      using _ = addAbortListener(signal, () => watch[Symbol.dispose]());
      onStart();
      for await (const event of watch) await onEvent?.(event);
    } catch (error) {
      if (!signal.aborted && !onFailure(error)) return;
    }
    await delay(interval(), undefined, { signal }).catch(() => {});
  }
}

/** Adds the changes of these tables to the reasons. Ends with the signal, or if netlink does not work here. */
export function watchKernel(
  netlink: Pick<Netlink, 'watch' | 'noteFailure' | 'isUnavailableForGood'>,
  tables: readonly WatchedTable[],
  reasons: Pick<Reasons, 'addChanges'>,
  interval: () => number,
  signal: AbortSignal,
): Promise<void> {
  return keepWatching({
    open: () => netlink.watch(tables, (changes) => reasons.addChanges(changes)),
    // Before the watch began, something may have changed.
    onStart: () => reasons.addChanges({ items: [], lost: true }),
    onFailure: (error) => {
      netlink.noteFailure(error);
      return !netlink.isUnavailableForGood;
    },
    interval,
    signal,
  });
}

/**
 * Adds a reason when addresses of the node change that the policies ask for.
 *
 * @param areCurrent whether the policies have the node's addresses
 */
export function watchAddresses(
  areCurrent: () => boolean,
  reasons: Pick<Reasons, 'add'>,
  notices: Notices,
  interval: () => number,
  signal: AbortSignal,
  open: WatchOptions<unknown>['open'] = openAddressWatch,
): Promise<void> {
  let pause = PAUSE_MS;
  let changedAt = Number.NEGATIVE_INFINITY;
  let rest = 0;
  const check = (): boolean => {
    const begin = performance.now();
    const isCurrent = areCurrent();
    rest = Math.min(PAUSE_TIMES * (performance.now() - begin), LONGEST_REST_MS);
    if (!isCurrent) reasons.add('addresses');
    return isCurrent;
  };
  return keepWatching({
    open,
    onStart: check,
    onEvent: async () => {
      await delay(Math.max(pause, rest), undefined, { signal });
      const now = performance.now();
      if (now - changedAt > CALM_MS) pause = PAUSE_MS;
      if (check()) return;
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      changedAt = now;
    },
    onFailure: (error) => {
      if (!(error instanceof NetlinkError)) throw error;
      const text = `cannot watch the node's addresses, changes wait for the resync: ${error.message}`;
      notices.warn('watch of addresses', [text]);
      return true;
    },
    interval,
    signal,
  });
}

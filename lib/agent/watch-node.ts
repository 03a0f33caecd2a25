import { addAbortListener } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Netlink } from '../dataplane/netlink.ts';
import type { Notices } from '../log/notices.ts';
import { NetlinkError } from '../netlink/error.ts';
import { openAddressWatch, type WatchedTable } from '../netlink/watch.ts';
import type { Reasons } from './reasons.ts';

/** Milliseconds before the addresses are read after an event: each pod that starts changes links and addresses too. */
const PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/** To read very many takes long: the next pause is so many times as long, as that after a round. */
const PAUSE_TIMES = 10;

const AGAIN_MS = 60_000;

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
  readonly againMs?: number;
  readonly signal: AbortSignal;
}

/** Watches until the signal. If that fails, it begins again after a while. */
export async function keepWatching<Event>(options: WatchOptions<Event>): Promise<void> {
  const { open, onStart, onEvent, onFailure, againMs = AGAIN_MS, signal } = options;
  while (!signal.aborted) {
    try {
      using watch = open();
      using _ = addAbortListener(signal, () => watch[Symbol.dispose]());
      onStart();
      for await (const event of watch) await onEvent?.(event);
    } catch (error) {
      if (!signal.aborted && !onFailure(error)) return;
    }
    await delay(againMs, undefined, { signal }).catch(() => {});
  }
}

/** Adds the changes of these tables to the reasons. Ends with the signal, or if netlink does not work here. */
export function watchKernel(
  netlink: Pick<Netlink, 'watch' | 'noteFailure' | 'isUnavailableForGood'>,
  tables: readonly WatchedTable[],
  reasons: Pick<Reasons, 'addChanges'>,
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
  signal: AbortSignal,
  how: Pick<WatchOptions<unknown>, 'open' | 'againMs'> = { open: openAddressWatch },
): Promise<void> {
  let pause = PAUSE_MS;
  const check = (): void => {
    const begin = performance.now();
    if (!areCurrent()) reasons.add('addresses');
    pause = Math.min(PAUSE_MS + PAUSE_TIMES * (performance.now() - begin), LONGEST_PAUSE_MS);
  };
  return keepWatching({
    ...how,
    onStart: () => {
      notices.warn(TOPIC, [], "watching the node's addresses again");
      check();
    },
    onEvent: async () => {
      await delay(pause, undefined, { signal });
      check();
    },
    onFailure: (error) => {
      if (!(error instanceof NetlinkError)) throw error;
      const text = `cannot watch the node's addresses, so changes wait for the resync or for the next attempt in ${AGAIN_MS / 1_000} s: ${error.message}`;
      notices.warn(TOPIC, [text]);
      return true;
    },
    signal,
  });
}

const TOPIC = 'watch of addresses';

import { addAbortListener } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

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

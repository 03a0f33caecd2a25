import { setTimeout as delay } from 'node:timers/promises';
import type { Wakes } from './wakes.ts';

/** What to watch, and what then happens. */
export interface AddressWatchOptions {
  /** Tells of every change of the node's addresses. */
  readonly watch: AsyncIterable<void> & Disposable;
  /** Whether the node's addresses now are those that the rules were made for. */
  readonly isCurrent: () => boolean;
  readonly wakes: Pick<Wakes, 'add'>;
  readonly signal: AbortSignal;
}

/** Changes of so many milliseconds lead to one look: each pod that starts changes addresses too. */
const PAUSE_MS = 100;

/** Wakes the agent when the rules need other addresses. Ends with the signal, or throws NetlinkError. */
export async function watchAddresses({
  watch,
  isCurrent,
  wakes,
  signal,
}: AddressWatchOptions): Promise<void> {
  const end = () => watch[Symbol.dispose]();
  signal.addEventListener('abort', end);
  try {
    // Before the watch began, they may have changed.
    if (!isCurrent()) wakes.add('addresses');
    for await (const _ of watch) {
      await delay(PAUSE_MS, undefined, { signal }).catch(() => {});
      if (!signal.aborted && !isCurrent()) wakes.add('addresses');
    }
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}

import { setTimeout as delay } from 'node:timers/promises';
import type { Wakes } from '../agent/wakes.ts';

/** What to watch, and what then happens. */
export interface AddressWatchOptions {
  /** Tells of every change of the node's addresses. */
  readonly watch: AsyncIterable<void> & Disposable;
  /** Whether the node's addresses now are those that the rules were made for. */
  readonly isCurrent: () => boolean;
  readonly wakes: Pick<Wakes, 'add'>;
  readonly signal: AbortSignal;
}

/** Changes of so many milliseconds lead to one look: each pod that starts changes links and addresses too. */
const PAUSE_MS = 100;

/** An address that comes and goes leads to rarer changes, until it stays for so long. */
const LONGEST_PAUSE_MS = 800;
const CALM_MS = 10_000;

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
    let [pause, changedAt] = [PAUSE_MS, Number.NEGATIVE_INFINITY];
    for await (const _ of watch) {
      await delay(pause, undefined, { signal }).catch(() => {});
      const now = performance.now();
      if (now - changedAt > CALM_MS) pause = PAUSE_MS;
      if (signal.aborted || isCurrent()) continue;
      wakes.add('addresses');
      [pause, changedAt] = [Math.min(2 * pause, LONGEST_PAUSE_MS), now];
    }
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}

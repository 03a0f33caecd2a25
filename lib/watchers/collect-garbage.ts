/** Longer than what follows a change: the reading of foreign rules, a scrape. */
const SETTLE_MS = 3_000;

let isDue = false;

/**
 * Collects garbage a few seconds later, which V8 would leave for days on a quiet node: after a start or a change it is a
 * quarter of the heap. Does nothing if Node runs without --expose-gc.
 */
export function collectGarbageSoon(): void {
  if (isDue) return;
  isDue = true;
  setTimeout(collectGarbage, SETTLE_MS).unref();
}

function collectGarbage(): void {
  isDue = false;
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

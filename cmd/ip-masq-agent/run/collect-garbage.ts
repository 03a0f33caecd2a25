/** Long enough for what follows a change: the look for foreign rules, a scrape. */
const SETTLE_MS = 3_000;

let isDue = false;

/**
 * Gives memory back to the kernel, a while after the first call since it did so last. V8 collects when enough new
 * garbage has come up, and on a quiet node that takes days: meanwhile a quarter of the heap would be what the start, or
 * a change of the rules, has left behind. Does nothing where Node runs without --expose-gc.
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

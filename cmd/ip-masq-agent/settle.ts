/** Long enough for what follows a change: the look for foreign rules, a scrape. */
const SETTLE_MS = 3_000;

let timer: NodeJS.Timeout | undefined;

/**
 * Gives memory back to the kernel, a while after it has been called for the last time. V8 collects when enough new
 * garbage has come up, and on a quiet node that takes days: meanwhile a quarter of the heap would be what the start, or
 * a change of the rules, has left behind. Does nothing where Node runs without --expose-gc.
 */
export function settleSoon(): void {
  timer ??= setTimeout(collectGarbage, SETTLE_MS).unref();
  timer.refresh();
}

function collectGarbage(): void {
  timer = undefined;
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

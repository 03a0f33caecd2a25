import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Longer than what follows a change: the reading of foreign rules, a scrape. */
const SETTLE_MS = 3_000;

let isDue = false;

/**
 * Collects garbage a few seconds later, which V8 would leave for days on a quiet node: after a start or a change it is a
 * quarter of the heap.
 */
export function collectGarbageSoon(): void {
  if (isDue) return;
  isDue = true;
  setTimeout(collectGarbage, SETTLE_MS).unref();
}

function collectGarbage(): void {
  isDue = false;
  // As a flag of Node.js it would make each start slower: V8 then refuses the compiled code of Node's modules.
  setFlagsFromString('--expose-gc');
  const collect: NodeJS.GCFunction = runInNewContext('gc');
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

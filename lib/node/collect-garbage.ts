import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { native } from '../netlink/native.ts';

/** Longer than what follows a change: the reading of foreign rules, a scrape. */
const SETTLE_MS = 3_000;

/** A collection takes more CPU than a small change: the heap must have grown by half since the last one. */
const GROWTH = 1.5;

/** V8's own. */
const OLD_AGE = 6;

let isDue = false;
/** The bytes of the heap after the last collection. */
let settled = 0;

/**
 * Collects garbage a few seconds later, if there is much. V8 would leave it for days on a quiet node: after a start or a large
 * change it is a quarter of the heap.
 */
export function collectGarbageSoon(): void {
  if (isDue) return;
  isDue = true;
  setTimeout(collectGarbage, SETTLE_MS).unref();
}

function collectGarbage(): void {
  isDue = false;
  if (heapBytes() < GROWTH * settled) return;
  // As flags of Node.js they would make each start slower: V8 then refuses the compiled code of Node's modules. The second
  // drops the code of functions that only the start needs. What later rounds compile again stays.
  setFlagsFromString('--expose-gc');
  setFlagsFromString('--bytecode-old-age=1');
  const collect: NodeJS.GCFunction | undefined = runInNewContext('globalThis.gc');
  collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  setFlagsFromString(`--bytecode-old-age=${OLD_AGE}`);
  settled = heapBytes();
  releaseFreeMemory();
}

function heapBytes(): number {
  return getHeapStatistics().used_heap_size;
}

/** Gives the kernel what malloc(3) keeps. */
function releaseFreeMemory(): void {
  try {
    native().func('int malloc_trim(size_t)')(0);
  } catch {
    // Without the native module it stays.
  }
}

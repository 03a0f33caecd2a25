/** A thread that counts the work of calls; see work.ts. */
import { Session } from 'node:inspector';
import { parentPort } from 'node:worker_threads';
import type { Call } from './work.ts';

const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });

const loaded = new Set<string>();

parentPort?.on('message', async ({ path, name, args }: Call) => {
  const { [name]: called } = await import(new URL(`../../${path}`, import.meta.url).href);
  if (!loaded.has(path)) takeBlocks();
  loaded.add(path);
  try {
    called(...args);
  } catch {
    // What a text is refused for, its test knows.
  }
  parentPort?.postMessage(takeBlocks());
});

/** How often blocks of code have run since the last call. */
function takeBlocks(): number {
  let blocks = 0;
  session.post('Profiler.takePreciseCoverage', (_, { result }) => {
    for (const { functions } of result)
      for (const { ranges } of functions) for (const { count } of ranges) blocks += count;
  });
  return blocks;
}

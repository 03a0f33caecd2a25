import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before } from 'node:test';
import { Worker } from 'node:worker_threads';

/** A call of a function, by its name in the module at this path, from the root of the project. */
export interface Call {
  readonly path: string;
  readonly name: string;
  readonly args: readonly unknown[];
}

/** The work of a call, in blocks of code that run. Throws of the function are its own affair. */
export type WorkOf = (call: Call) => Promise<number>;

/**
 * Lets the tests of a suite measure work: how often blocks of code run, as V8 counts them to tell which code tests cover.
 * Unlike a time it is the same on every machine. What a function of the language does, such as a match, is no block.
 */
export function useWork(): WorkOf {
  let worker: Worker;
  // V8 counts blocks only in code that it has compiled for that: here other tests may have run it before.
  before(() => {
    worker = new Worker(new URL('work-counter.ts', import.meta.url));
  });
  after(() => worker.terminate());
  return async (call) => {
    worker.postMessage(call);
    const [work] = await once(worker, 'message');
    assert.ok(typeof work === 'number' && work > 0, `${work}`);
    return work;
  };
}

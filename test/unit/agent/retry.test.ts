import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type RetryableError, retrying } from '../../../lib/agent/retry.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';

const BUSY = new DataplaneError('busy', 'the lock is held', 'wait');
const NEVER = new AbortController().signal;

function failing(times: number, error: Error): { operation: () => Promise<string>; calls: () => number } {
  let calls = 0;
  const operation = async () => {
    calls += 1;
    if (calls <= times) throw error;
    return 'done';
  };
  return { operation, calls: () => calls };
}

describe('a retry', () => {
  for (const failure of ['busy', 'raced'] as const) {
    it(`goes on while the kernel is ${failure}, and counts`, async () => {
      const { operation } = failing(3, new DataplaneError(failure, 'not now', 'wait'));
      const attempts: number[] = [];
      const onRetry = (_: RetryableError, attempt: number) => attempts.push(attempt);
      assert.equal(await retrying(operation, { timeoutMs: 10_000, signal: NEVER, onRetry }), 'done');
      assert.deepEqual(attempts, [1, 2, 3]);
    });
  }

  for (const error of [
    new DataplaneError('refused', 'no', 'ask'),
    new DataplaneError('missing', 'no', 'install'),
    new Error('bug'),
  ]) {
    it(`does not help against ${error.message}`, async () => {
      const { operation, calls } = failing(1, error);
      const running = retrying(operation, { timeoutMs: 10_000, signal: NEVER, onRetry: () => {} });
      await assert.rejects(running, error);
      assert.equal(calls(), 1);
    });
  }

  it('gives up when the time is over, and keeps the remedy', async () => {
    const { operation } = failing(Number.POSITIVE_INFINITY, BUSY);
    await assert.rejects(retrying(operation, { timeoutMs: 120, signal: NEVER, onRetry: () => {} }), {
      message: 'gave up after 120 ms: the lock is held',
      remedy: 'wait',
      failure: 'busy',
    });
  });

  it('gives up what hangs, but not what has ended while the agent was stopped', async (context) => {
    context.mock.timers.enable({ apis: ['setTimeout'] });
    const end = Promise.withResolvers<string>();
    const options = {
      timeoutMs: 1_000,
      deadline: performance.now() + 1_000,
      signal: NEVER,
      onRetry: () => {},
    };
    const hangs = assert.rejects(
      retrying(() => new Promise(() => {}), options),
      /not ended within 1000 ms/,
    );
    const running = retrying(() => end.promise, options);
    // The timers of a process that goes on after a stop come before all else.
    context.mock.timers.tick(60_000);
    end.resolve('done');
    assert.equal(await running, 'done');
    context.mock.timers.tick(60_000);
    await hangs;
  });

  it('ends its pause when aborted', async () => {
    const stop = new AbortController();
    const { operation } = failing(Number.POSITIVE_INFINITY, BUSY);
    const onRetry = () => stop.abort();
    const running = retrying(operation, { timeoutMs: 1e6, signal: stop.signal, onRetry });
    await assert.rejects(running, { name: 'AbortError' });
  });
});

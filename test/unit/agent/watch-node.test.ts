import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { keepWatching, watchAddresses } from '../../../lib/agent/watch-node.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { capturedLog } from '../../lab/log.ts';

const NEVER = new AbortController().signal;

/** A watch that waits for its end, or fails at once. */
function watch(error?: Error): AsyncIterable<never> & Disposable {
  const end = Promise.withResolvers<void>();
  const next = async () => {
    if (error !== undefined) throw error;
    await end.promise;
    return { done: true, value: undefined } as const;
  };
  return {
    [Symbol.asyncIterator]: () => ({ next }),
    [Symbol.dispose]: end.resolve,
  };
}

describe('the addresses of the node', () => {
  it('are read a small part of the time, however many there are and however often they change', async () => {
    const stop = new AbortController();
    const start = performance.now();
    const tookMs = 60;
    let read = 0;
    const areCurrent = () => {
      read += 1;
      for (const until = performance.now() + tookMs; performance.now() < until; );
      return true;
    };
    async function* flood() {
      for (;;) yield undefined;
    }
    const open = () => Object.assign(flood(), { [Symbol.dispose]: () => {} });
    const notices = new Notices(capturedLog().log);
    const watched = watchAddresses(areCurrent, { add() {} }, notices, stop.signal, { open });
    await delay(1_500);
    stop.abort();
    await watched;
    const most = 2 + (performance.now() - start) / (10 * tookMs);
    assert.ok(read >= 2 && read <= most, `${read} readings, at most ${most}`);
  });
});

it('each failure of the watch of addresses is told, also the same one again, and its end', async () => {
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const failure = new NetlinkError('failed', 'no buffer');
  let opened = 0;
  const open = () => {
    opened += 1;
    if (opened === 4) stop.abort();
    if (opened % 2 === 1) throw failure;
    return watch(failure);
  };
  await watchAddresses(() => true, { add() {} }, new Notices(log), stop.signal, { open, againMs: 1 });
  const failed =
    "cannot watch the node's addresses, so changes wait for the resync or for the next attempt in 60 s: no buffer";
  const again = "watching the node's addresses again";
  const said = lines.slice(0, 4).map(({ msg }) => msg);
  assert.deepEqual(said, [failed, again, failed, again]);
});

describe('what is watched', () => {
  it('is watched again a while after a failure, unless no later attempt can succeed', async () => {
    const failures: unknown[] = [];
    let [opened, started] = [0, 0];
    await keepWatching({
      open: () => {
        opened += 1;
        // To open it can fail too.
        if (opened === 1) throw new Error('1');
        return watch(new Error(`${opened}`));
      },
      onStart: () => {
        started += 1;
      },
      onFailure: (error) => failures.push(error) < 3,
      againMs: 1,
      signal: NEVER,
    });
    assert.deepEqual([opened, started, failures.map(String)], [3, 2, ['Error: 1', 'Error: 2', 'Error: 3']]);
  });

  for (const [when, error] of [
    ['while it waits for an event', undefined],
    ['while it waits to begin again', new Error('failed')],
  ] as const)
    it(`is no longer watched after the signal, ${when}`, async () => {
      const stop = new AbortController();
      const ended = keepWatching({
        open: () => watch(error),
        onStart: () => setImmediate(() => stop.abort()),
        onFailure: () => true,
        againMs: 3_600_000,
        signal: stop.signal,
      });
      await ended;
      assert.ok(stop.signal.aborted);
    });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Trigger } from '../../../lib/agent/trigger.ts';

const NEVER = new AbortController().signal;

describe('a trigger', () => {
  it('holds what happens during a sync for exactly one more', async () => {
    const trigger = new Trigger();
    for (let event = 0; event < 100; event += 1) trigger.fire('change');
    assert.equal((await trigger.next(1, NEVER))?.reason, 'change');
    assert.equal((await trigger.next(1, NEVER))?.reason, 'resync');
  });

  it('remembers the first of several events, and when it came', async () => {
    const trigger = new Trigger();
    const before = performance.now();
    trigger.fire('signal');
    trigger.fire('change');
    const wake = await trigger.next(1000, NEVER);
    assert.equal(wake?.reason, 'signal');
    assert.ok(wake.since >= before && wake.since <= performance.now());
  });

  it('wakes who waits', async () => {
    const trigger = new Trigger();
    const next = trigger.next(1_000_000, NEVER);
    trigger.fire('change');
    assert.equal((await next)?.reason, 'change');
  });

  it('ends when aborted, before or while it waits, whatever is pending', async () => {
    const stop = new AbortController();
    const trigger = new Trigger();
    const next = trigger.next(1_000_000, stop.signal);
    stop.abort();
    assert.equal(await next, undefined);
    trigger.fire('change');
    assert.equal(await trigger.next(1_000_000, stop.signal), undefined);
  });
});

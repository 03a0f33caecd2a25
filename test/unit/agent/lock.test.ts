import assert from 'node:assert/strict';
import { it } from 'node:test';
import { pino } from 'pino';
import { NamespaceLock } from '../../../lib/agent/lock.ts';

it('after the signal the lock is not taken', async () => {
  const lock = new NamespaceLock({
    introduce: () => ({ version: '', flags: [] }),
    mayLoadModule: false,
    timeoutMs: 0,
    log: pino({ level: 'silent' }),
    signal: AbortSignal.abort(),
    onFailure: assert.fail,
    onOtherAgent: assert.fail,
  });
  await assert.rejects(lock.take(), { name: 'AbortError' });
  assert.equal(lock.isDecided, false);
});

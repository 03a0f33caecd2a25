import assert from 'node:assert/strict';
import { it } from 'node:test';
import { NamespaceLock } from '../../../lib/agent/lock.ts';
import { capturedLog } from '../../lab/log.ts';

it('after the signal the lock is not taken', async () => {
  const lock = new NamespaceLock({
    introduce: () => ({ version: '', flags: [] }),
    timeoutMs: 0,
    log: capturedLog().log,
    signal: AbortSignal.abort(),
    onFailure: assert.fail,
    onOtherAgent: assert.fail,
  });
  await assert.rejects(lock.take(), { name: 'AbortError' });
  assert.equal(lock.isDecided, false);
});

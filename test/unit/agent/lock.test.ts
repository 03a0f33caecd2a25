import assert from 'node:assert/strict';
import { it } from 'node:test';
import { takeLock } from '../../../lib/agent/lock.ts';
import { capturedLog } from '../../lab/log.ts';

it('after the signal the lock is not taken', async () => {
  const taking = takeLock(
    {
      introduce: () => ({ version: '', flags: [] }),
      timeoutMs: 0,
      log: capturedLog().log,
      signal: AbortSignal.abort(),
    },
    0,
  );
  await assert.rejects(taking, { name: 'AbortError' });
});

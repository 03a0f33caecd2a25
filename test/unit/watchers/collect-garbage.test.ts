import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

// A module of its own: a timer of other tests in this process may still run.
const OWN = '../../../lib/watchers/collect-garbage.ts?own';
const { collectGarbageSoon }: typeof import('../../../lib/watchers/collect-garbage.ts') = await import(OWN);

it('collects garbage once for all changes of a while, also where they never stop coming', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  /** Whether garbage is collected while so many changes come, or at the end of a minute without any. */
  const collects = async (changes: number): Promise<boolean> => {
    const garbage = new WeakRef({});
    // What a WeakRef has given stays until the end of the turn.
    await turn();
    for (let change = 0; change < changes; change += 1) {
      collectGarbageSoon();
      t.mock.timers.tick(100);
    }
    if (changes === 0) t.mock.timers.tick(60_000);
    return garbage.deref() === undefined;
  };
  assert.equal(await collects(29), false);
  assert.equal(await collects(1), true);
  assert.equal(await collects(0), false);
  assert.equal(await collects(30), true);
});

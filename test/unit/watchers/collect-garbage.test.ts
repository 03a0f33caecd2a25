import assert from 'node:assert/strict';
import { it } from 'node:test';

// A module of its own: a timer of other tests in this process may still run.
const OWN = '../../../lib/watchers/collect-garbage.ts?own';
const { collectGarbageSoon }: typeof import('../../../lib/watchers/collect-garbage.ts') = await import(OWN);

it('collects garbage once for all changes of a while, also where they never stop coming', (t) => {
  let collected = 0;
  const { gc } = globalThis;
  t.after(() => {
    globalThis.gc = gc;
  });
  globalThis.gc = (() => {
    collected += 1;
  }) as NodeJS.GCFunction;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const change = (times: number) => {
    for (let time = 0; time < times; time += 1) {
      collectGarbageSoon();
      t.mock.timers.tick(100);
    }
  };
  change(29);
  assert.equal(collected, 0);
  change(1);
  assert.equal(collected, 1);
  t.mock.timers.tick(60_000);
  assert.equal(collected, 1);
  change(30);
  assert.equal(collected, 2);
});

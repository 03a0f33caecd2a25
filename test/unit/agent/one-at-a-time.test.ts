import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { oneAtATime } from '../../../lib/agent/one-at-a-time.ts';
import { capturedLog } from '../../lab/log.ts';

it('a bug in a job is logged, and the latest request that came meanwhile follows', async () => {
  const { log, lines } = capturedLog();
  const done: number[] = [];
  const request = oneAtATime(async (number: number) => {
    await turn();
    done.push(number);
    if (number === 1) throw new TypeError('not a function');
  }, log);
  for (const number of [1, 2, 3]) request(number);
  while (done.length < 2) await turn();
  assert.deepEqual(done, [1, 3]);
  assert.match(`${lines[0]?.['msg']}`, /^bug: TypeError: not a function/);
});

it('a job that takes long has a pause of ten times as long before the next one', async (context) => {
  let now = 0;
  context.mock.method(performance, 'now', () => now);
  const begun: number[] = [];
  const request = oneAtATime<void>(async () => {
    begun.push(Date.now());
    now += 10;
  }, capturedLog().log);
  request();
  request();
  while (begun.length < 2) await turn();
  const [first = 0, second = 0] = begun;
  assert.ok(second - first >= 99, `${second - first} ms`);
});

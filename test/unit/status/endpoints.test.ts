import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Knowledge } from '../../../lib/agent/state.ts';
import type { ConntrackTable } from '../../../lib/node/conntrack-table.ts';
import { routes } from '../../../lib/status/endpoints.ts';
import { LIMITS } from '../../../lib/status/limits.ts';
import { Metrics } from '../../../lib/status/metrics.ts';
import { ABOUT, readerOf } from './support.ts';

describe('answers that are equal', () => {
  it('are made at most once a second for /metrics', async () => {
    const { ask, metrics } = create([]);
    const text = metrics.text.bind(metrics);
    let made = 0;
    metrics.text = () => {
      made += 1;
      return text();
    };
    const start = performance.now();
    await Promise.all(Array.from({ length: 400 }, ask['/metrics']));
    const seconds = 1 + Math.floor((performance.now() - start) / LIMITS.sharedAnswerMs);
    assert.ok(made <= seconds, `made ${made} times`);
  });
});

it('say how full connection tracking is, and count what it drops from the first reading on', async ({
  mock,
}) => {
  let now = 0;
  mock.method(performance, 'now', () => now);
  const { ask, metrics } = create([
    { entries: 50, most: 100, dropped: 7 },
    { entries: 100, most: 100, dropped: 10 },
    undefined,
  ]);
  const { value } = readerOf(metrics);
  for (const [usage, drops] of [
    [0.5, 0],
    [1, 3],
    [undefined, 3],
  ]) {
    await ask['/metrics']();
    now += 1_000;
    assert.equal(await value('conntrack_usage_ratio'), usage);
    assert.equal(await value('conntrack_drops_total'), drops);
  }
});

function create(tables: (ConntrackTable | undefined)[]) {
  const metrics = new Metrics();
  const ask = routes({
    ...ABOUT,
    agent: new Knowledge(),
    metrics,
    version: '',
    node: '',
    conntrack: async () => tables.shift(),
    configJson: () => '',
  });
  return { ask, metrics };
}

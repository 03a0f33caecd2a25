import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { routes } from '../../../lib/status/endpoints.ts';
import { LIMITS } from '../../../lib/status/limits.ts';
import { Metrics } from '../../../lib/status/metrics.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';
import { createStatus } from './support.ts';

describe('answers that are equal', () => {
  it('are made at most once a second for /metrics', async () => {
    const { ask, metrics } = create();
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

function create() {
  const metrics = new Metrics();
  const ask = routes({
    ...{
      status: createStatus(),
      metrics,
      counts: new PacketCounts(),
      families: ['IPv4'],
      version: '',
      node: '',
    },
    interval: () => 60_000,
    conntrack: async () => undefined,
    configJson: () => '',
  });
  return { ask, metrics };
}

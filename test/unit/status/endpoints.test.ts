import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { routes } from '../../../lib/status/endpoints.ts';
import { LIMITS } from '../../../lib/status/limits.ts';
import { Metrics } from '../../../lib/status/metrics.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';
import { loadedOf, mergedOf } from '../config/support.ts';
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

  it('follow the config for /configz', () => {
    const { ask, status } = create();
    assert.equal(ask['/configz']().status, 503);
    for (const file of ['a', 'b']) {
      status.onLoad(loadedOf(mergedOf({ [file]: '{}' })));
      const answer = ask['/configz']();
      assert.deepEqual([answer.status, `${answer.body}`], [200, file]);
    }
  });
});

function create() {
  const status = createStatus();
  const metrics = new Metrics();
  const ask = routes({
    ...{ status, metrics, counts: new PacketCounts(), families: ['IPv4'], version: '', node: '' },
    interval: () => 60_000,
    conntrack: async () => undefined,
    configJson: (config: MergedConfig | undefined) => `${config?.configFileNames}`,
  });
  return { ask, status, metrics };
}

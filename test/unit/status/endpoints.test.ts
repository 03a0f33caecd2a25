import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { buildInfo } from '../../../cmd/ip-masq-agent/build-info.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { routes } from '../../../lib/status/endpoints.ts';
import { LIMITS } from '../../../lib/status/limits.ts';
import { Metrics } from '../../../lib/status/metrics.ts';
import { StatusObserver } from '../../../lib/status/observer.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';
import { Recorder } from '../../../lib/status/recorder.ts';
import { loadedOf, mergedOf } from '../config/support.ts';

describe('answers that are equal', () => {
  it('are made at most once a second for /metrics', async () => {
    const metrics = new Metrics();
    const text = metrics.text.bind(metrics);
    let made = 0;
    metrics.text = () => {
      made += 1;
      return text();
    };
    const { '/metrics': ask } = create({ metrics });
    const start = performance.now();
    await Promise.all(Array.from({ length: 400 }, ask));
    const seconds = 1 + Math.floor((performance.now() - start) / LIMITS.sharedAnswerMs);
    assert.ok(made <= seconds, `made ${made} times`);
  });

  it('are made once for /configz until the config changes', () => {
    const made: unknown[] = [];
    const configJson = (config: MergedConfig | undefined) => {
      made.push(config?.configFileNames);
      return '{}';
    };
    const status = new StatusObserver(new Recorder(), buildInfo());
    const { '/configz': ask } = create({ status, configJson });
    const load = (file: string) =>
      status.onLoad(loadedOf(mergedOf({ [file]: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' })));
    assert.equal(ask().status, 503);
    load('a');
    assert.equal(ask(), ask());
    assert.equal(ask().status, 200);
    load('b');
    assert.equal(ask(), ask());
    assert.deepEqual(made, [undefined, ['a'], ['b']]);
  });
});

function create(own: Partial<Parameters<typeof routes>[0]>) {
  return routes({
    status: new StatusObserver(new Recorder(), buildInfo()),
    metrics: new Metrics(),
    counts: new PacketCounts(),
    families: ['IPv4'],
    interval: () => 60_000,
    version: '',
    node: '',
    conntrack: async () => undefined,
    configJson: () => '{}',
    ...own,
  });
}

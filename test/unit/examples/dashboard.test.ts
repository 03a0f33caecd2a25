import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { METRIC_PREFIX, METRICS } from '../../../lib/status/metrics.ts';
import { metricsOf, targets } from '../../prometheus/dashboard.ts';

describe('the dashboard', () => {
  it('asks always of the chosen clusters, and nodes', () => {
    for (const { expr, panel } of targets) {
      // What is counted against whole DaemonSets is not of some nodes.
      const chosen = expr.includes('kube_pod_info')
        ? '{cluster=~"$cluster"'
        : '{cluster=~"$cluster",node=~"$node"';
      assert.ok(expr.includes(chosen), panel);
    }
  });

  it('shows all metrics', () => {
    const shown = new Set(targets.flatMap(({ expr }) => metricsOf(expr)));
    const wrong = Object.entries(METRICS).filter(
      ([name, { type }]) => !shown.has(METRIC_PREFIX + name + (type === 'histogram' ? '_bucket' : '')),
    );
    assert.deepEqual(wrong, []);
  });
});

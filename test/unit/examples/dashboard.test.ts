import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { METRIC_PREFIX, METRICS, Metrics } from '../../../lib/status/metrics.ts';
import { dashboard, type GridPos, metricsOf, panels, targets } from '../../prometheus/dashboard.ts';

describe('the dashboard', () => {
  it('asks for its data source at the import, and uses no other', () => {
    const inputs = dashboard.__inputs.map(({ name, pluginId }) => [name, pluginId]);
    assert.deepEqual(inputs, [['DS_PROMETHEUS', 'prometheus']]);
    const [source, ...others] = dashboard.templating.list;
    assert.deepEqual([source?.name, source?.current.value], ['datasource', `\${DS_PROMETHEUS}`]);
    for (const { datasource } of [...others.filter(({ type }) => type === 'query'), ...panels, ...targets])
      assert.deepEqual(datasource, { type: 'prometheus', uid: `\${datasource}` });
  });

  it('uses only panels that come with Grafana, and requires those it uses', () => {
    const required = dashboard.__requires.flatMap(({ type, id }) => (type === 'panel' ? [id] : []));
    const core = ['bargauge', 'heatmap', 'stat', 'table', 'timeseries'];
    assert.deepEqual([...new Set(panels.map(({ type }) => type))].toSorted(), core);
    assert.deepEqual(required, core);
    assert.ok(dashboard.schemaVersion >= 38);
  });

  it('gives every panel an id and a title of its own', () => {
    const rows = dashboard.panels.filter(({ type }) => type === 'row');
    for (const key of ['id', 'title'] as const) {
      const values = [...rows, ...panels].map((panel) => panel[key]);
      assert.equal(new Set(values).size, values.length, values.join());
    }
  });

  it('lays no panel over another, nor over the edge', () => {
    const groups = [dashboard.panels, ...dashboard.panels.map((row) => row.panels ?? [])];
    for (const group of groups)
      for (const [index, { gridPos, title }] of group.entries()) {
        assert.ok(gridPos.x >= 0 && gridPos.x + gridPos.w <= 24, title);
        const other = group.slice(index + 1).find((panel) => overlap(gridPos, panel.gridPos));
        assert.equal(other, undefined, `${title} and ${other?.title}`);
      }
  });

  it('shows the fleet and the rollout at once; the other rows are collapsed', () => {
    const rows = dashboard.panels.filter(({ type }) => type === 'row');
    const open = rows.filter(({ collapsed }) => collapsed !== true).map(({ title }) => title);
    assert.deepEqual(open, ['Fleet', 'Config rollout']);
    assert.ok(rows.every((row) => row.collapsed !== true || (row.panels?.length ?? 0) > 0));
  });

  it('describes every panel in one sentence, and gives it a unit', () => {
    for (const panel of panels) {
      assert.match(panel.description ?? '', /^[A-Z][^.]*(?:\.\w[^.]*)*\.$/, panel.title);
      const unit = panel.options?.yAxis?.unit ?? panel.fieldConfig?.defaults.unit;
      assert.match(unit ?? '', /^(?:s|ops|cps|pps|bytes|percentunit|short)$/, panel.title);
    }
  });

  it('asks for metrics that there are, always of the chosen clusters and nodes', async () => {
    const known = new Set([...(await exposed()), ...STATE_METRICS]);
    for (const { expr, panel } of targets) {
      const unknown = metricsOf(expr).filter((name) => !known.has(name));
      assert.deepEqual(unknown, [], `${panel}: ${expr}`);
      // What is counted against whole DaemonSets is not of some nodes.
      const isOfFleet = STATE_METRICS.some((name) => expr.includes(name));
      const chosen = isOfFleet ? '{cluster=~"$cluster"' : '{cluster=~"$cluster",node=~"$node"}';
      assert.ok(expr.includes(chosen), panel);
    }
  });

  it('shows every metric of the agent', () => {
    const shown = new Set(targets.flatMap(({ expr }) => metricsOf(expr)));
    const missing = Object.entries(METRICS).filter(
      ([name, { type }]) => !shown.has(METRIC_PREFIX + name + (type === 'histogram' ? '_bucket' : '')),
    );
    assert.deepEqual(missing, []);
  });
});

/** Of kube-state-metrics. */
const STATE_METRICS = ['kube_pod_info', 'kube_daemonset_status_desired_number_scheduled'];

/** The names of series that the agent exposes, or will where something has happened. */
async function exposed(): Promise<ReadonlySet<string>> {
  const body = await new Metrics().text();
  const types = [...body.matchAll(/^# TYPE (\w+) (\w+)$/gm)];
  return new Set(
    types.flatMap(([, name = '', type]) =>
      type === 'histogram' ? ['bucket', 'sum', 'count'].map((suffix) => `${name}_${suffix}`) : [name],
    ),
  );
}

function overlap(a: GridPos, b: GridPos): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

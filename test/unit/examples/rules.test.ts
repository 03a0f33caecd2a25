import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { load } from 'js-yaml';
import { METRIC_PREFIX, METRICS } from '../../../lib/status/metrics.ts';
import { example, exampleRules } from '../../prometheus/support.ts';

const UNIT_TESTS = new URL('../../prometheus/rules.promtool.yaml', import.meta.url);
const PODMONITOR = new URL(
  '../../../examples/kubernetes/components/podmonitor/podmonitor.yaml',
  import.meta.url,
);
const RUNBOOK = readFileSync(new URL('../../../docs/runbook.md', import.meta.url), 'utf8');
const ALERTS = exampleRules().filter((rule) => rule.alert !== undefined);
const NAMES = ALERTS.map(({ alert = '' }) => alert);
const SUFFIXES = /_(bucket|count|sum)$/;

describe('the alerts of examples/prometheus', () => {
  it('fire in the unit tests, each of them', () => {
    const fired = readFileSync(UNIT_TESTS, 'utf8').matchAll(/- labels: .*alertname="(\w+)"/g);
    assert.deepEqual([...new Set(Array.from(fired, ([, name = '']) => name))].sort(), [...NAMES].sort());
  });

  it('have a section of the runbook each, in the same order, with a command or where to read on', () => {
    const found = [...RUNBOOK.matchAll(/^## (IpMasqAgent\w+)\n(.*?)(?=^## |(?![\s\S]))/gms)];
    assert.deepEqual(
      found.map(([, title]) => title),
      NAMES,
    );
    for (const [, title, text = ''] of found) assert.match(text, /`|\(#/, title);
  });

  it('say how bad it is, what it is, and where to read on', () => {
    for (const { alert = '', for: patience, labels = {}, annotations = {} } of ALERTS) {
      assert.match(patience ?? '', /^\d+m$/, alert);
      assert.match(labels['severity'] ?? '', /^(critical|warning)$/, alert);
      const keys = ['description', 'first_command', 'runbook_url', 'summary', 'traffic_wrong'];
      assert.deepEqual(Object.keys(annotations).sort(), keys, alert);
      const anchor = `#${alert.toLowerCase()}{{ end }}`;
      assert.ok(annotations['runbook_url']?.endsWith(anchor), alert);
    }
  });

  it('are critical if traffic is wrong now or at the next reboot, and only then', () => {
    for (const { alert, labels = {}, annotations = {} } of ALERTS) {
      const traffic = annotations['traffic_wrong'] ?? '';
      assert.match(traffic, /^(yes|at the next reboot|no|perhaps|not known)\b/, alert);
      assert.equal(labels['severity'] === 'critical', /^(yes|at the next reboot)\b/.test(traffic), alert);
    }
  });

  it('have links only if the first rule, which a patch of the component names, says where the runbook is', () => {
    const [first] = exampleRules();
    assert.deepEqual([first?.record, first?.labels], ['ip_masq_agent:runbook', { url: '' }]);
  });

  it('are inhibited only by others of them, with the same labels as both keep', () => {
    const { inhibit_rules: rules } = load(example('alertmanager.yaml')) as { inhibit_rules: Inhibition[] };
    for (const { source_matchers, target_matchers, equal } of rules)
      for (const matcher of [...source_matchers, ...target_matchers])
        for (const name of matcher.replace(/^alertname=~?"|"$/g, '').split('|')) {
          const expr = ALERTS.find(({ alert }) => alert === name)?.expr ?? '';
          const [, kept = ''] = /^(?:count|sum) by \((.*?)\)/.exec(expr) ?? [];
          for (const label of equal) assert.ok(kept.split(', ').includes(label), `${name} has ${label}`);
        }
  });

  it('ask for metrics, labels and values that the agent has', () => {
    for (const { expr } of exampleRules())
      for (const [, name = '', matchers = ''] of expr.matchAll(/\bip_masq_agent_(\w+)(?:\{(.*?)\})?/g))
        assertKnown(name.replace(SUFFIXES, ''), matchers);
    for (const text of [RUNBOOK, example('rules.yaml')])
      for (const [, name = ''] of text.matchAll(/\bip_masq_agent_(\w+)/g))
        assert.ok(Object.hasOwn(METRICS, name.replace(SUFFIXES, '')), METRIC_PREFIX + name);
  });
});

describe('the PodMonitor', () => {
  it('gives metrics the node label that the alerts know', () => {
    const { spec } = load(readFileSync(PODMONITOR, 'utf8')) as { spec: PodMonitorSpec };
    const relabelings = spec.podMetricsEndpoints.map((endpoint) => endpoint.relabelings);
    const ofNode = { sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'node' };
    assert.deepEqual(relabelings, [[ofNode]]);
    assert.equal(spec.jobLabel, 'app.kubernetes.io/name');
  });
});

interface PodMonitorSpec {
  readonly jobLabel: string;
  readonly podMetricsEndpoints: readonly { readonly relabelings: readonly object[] }[];
}

interface Inhibition {
  readonly source_matchers: readonly string[];
  readonly target_matchers: readonly string[];
  readonly equal: readonly string[];
}

function assertKnown(name: string, matchers: string): void {
  const metric = Object.entries(METRICS).find(([known]) => known === name)?.[1];
  assert.ok(metric, METRIC_PREFIX + name);
  for (const [, label = '', value = ''] of matchers.matchAll(/(\w+)="(.*?)"/g)) {
    const labels: readonly string[] = metric.labels;
    assert.ok(labels.includes(label), `${name} has no label ${label}`);
    if (label === 'result') assert.match(metric.help, new RegExp(`\\b${value}\\b`));
  }
}

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { load } from 'js-yaml';
import { REPOSITORY } from '../../../build/repository.ts';
import { METRIC_PREFIX, METRICS } from '../../../lib/status/metrics.ts';
import { example, exampleRules } from '../../prometheus/support.ts';

const PODMONITOR = new URL(
  '../../../examples/kubernetes/components/podmonitor/podmonitor.yaml',
  import.meta.url,
);
const RUNBOOK = readFileSync(new URL('../../../docs/runbook.md', import.meta.url), 'utf8');
const RUNBOOK_URL = `https://github.com/${REPOSITORY}/blob/main/docs/runbook.md`;
const ALERTS = exampleRules().filter((rule) => rule.alert !== undefined);
const NAMES = ALERTS.map(({ alert = '' }) => alert);
const SUFFIXES = /_(bucket|count|sum)$/;

describe('the alerts of examples/prometheus', () => {
  it('have a section of the runbook each, in the same order, with a command or where to read on', () => {
    const found = [...RUNBOOK.matchAll(/^## (IpMasq(?:Agent|Ranges)\w+)\n(.*?)(?=^## |(?![\s\S]))/gms)];
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
      assert.equal(annotations['runbook_url'], `${RUNBOOK_URL}#${alert.toLowerCase()}`);
    }
  });

  it('are critical if traffic is wrong now or at the next reboot, and only then', () => {
    for (const { alert, labels = {}, annotations = {} } of ALERTS) {
      const traffic = annotations['traffic_wrong'] ?? '';
      assert.match(traffic, /^(yes|at the next reboot|no|perhaps|not known)\b/, alert);
      assert.equal(labels['severity'] === 'critical', /^(yes|at the next reboot)\b/.test(traffic), alert);
    }
  });

  it('have a first rule, which the chart and a patch of the component change, with the name of the DaemonSet', () => {
    const [first] = exampleRules();
    const labels = { namespace: 'kube-system', daemonset: 'ip-masq-agent' };
    assert.deepEqual([first?.record, first?.labels], ['ip_masq_agent:expected', labels]);
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

function assertKnown(name: string, matchers: string): void {
  const metric = Object.entries(METRICS).find(([known]) => known === name)?.[1];
  assert.ok(metric, METRIC_PREFIX + name);
  for (const [, label = '', value = ''] of matchers.matchAll(/(\w+)="(.*?)"/g)) {
    const labels: readonly string[] = metric.labels;
    assert.ok(labels.includes(label), `${name} has no label ${label}`);
    if (label === 'result') assert.match(metric.help, new RegExp(`\\b${value}\\b`));
  }
}

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { load } from 'js-yaml';
import { METRIC_PREFIX, METRICS } from '../../lib/status/metrics.ts';
import { run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { example, examplePath, exampleRules } from './support.ts';

const UNIT_TESTS = fileURLToPath(new URL('rules.promtool.yaml', import.meta.url));
const PODMONITOR = new URL(
  '../../examples/kubernetes/components/podmonitor/podmonitor.yaml',
  import.meta.url,
);
const ALERTS = exampleRules().filter((rule) => rule.alert !== undefined);
const NAMES = ALERTS.map(({ alert = '' }) => alert);
const SUFFIXES = /_(bucket|count|sum)$/;

describe('the alerts of examples/prometheus', () => {
  it('are rules that Prometheus accepts', async () => {
    await promtool('check', 'rules', '--lint=all', '--lint-fatal', examplePath('rules.yaml'));
  });

  it('fire when they are to, and not else', async () => {
    await promtool('test', 'rules', UNIT_TESTS);
  });

  it('fire in the unit tests, each of them', () => {
    const fired = readFileSync(UNIT_TESTS, 'utf8').matchAll(/- labels: .*alertname="(\w+)"/g);
    assert.deepEqual([...new Set(Array.from(fired, ([, name = '']) => name))].sort(), [...NAMES].sort());
  });

  it('have a section of the runbook each, which has no other', () => {
    const sections = [...example('runbook.md').matchAll(/^## (.*)$/gm)].map(([, title]) => title);
    assert.deepEqual(sections, NAMES);
  });

  it('are told about with meaning, impact, what to look at and what to do', () => {
    const [, ...sections] = example('runbook.md').split(/^## /m);
    for (const section of sections)
      assert.deepEqual(
        [...section.matchAll(/^\*\*(.*?)\.?\*\*/gm)].map(([, word]) => word),
        ['Meaning', 'Impact', 'Look at', 'Do'],
        section,
      );
  });

  it('say how bad it is, what it is, and where to read on', () => {
    for (const { alert = '', for: patience, labels = {}, annotations = {} } of ALERTS) {
      assert.match(patience ?? '', /^\d+m$/, alert);
      assert.match(labels['severity'] ?? '', /^(critical|warning)$/, alert);
      assert.deepEqual(Object.keys(annotations).sort(), ['description', 'runbook_url', 'summary'], alert);
      const url = `https://runbooks.example.com/ip-masq-agent/runbook.md#${alert.toLowerCase()}`;
      assert.equal(annotations['runbook_url'], url);
    }
  });

  it('are inhibited only by others of them, with the same labels as both keep', () => {
    const { inhibit_rules: rules } = load(example('alertmanager.yaml')) as { inhibit_rules: Inhibition[] };
    for (const { source_matchers, target_matchers, equal } of rules)
      for (const matcher of [...source_matchers, ...target_matchers])
        for (const name of matcher.replace(/^alertname=~?"|"$/g, '').split('|')) {
          const expr = ALERTS.find(({ alert }) => alert === name)?.expr ?? '';
          const [, kept = ''] = /^count by \((.*?)\)/.exec(expr) ?? [];
          for (const label of equal) assert.ok(kept.split(', ').includes(label), `${name} has ${label}`);
        }
  });

  it('lead to sections that there are, where the runbook has links', () => {
    for (const [, anchor = ''] of example('runbook.md').matchAll(/\(#(.*?)\)/g))
      assert.ok(
        NAMES.some((name) => name.toLowerCase() === anchor),
        anchor,
      );
  });

  it('ask for metrics, labels and values that the agent has', () => {
    for (const { expr } of exampleRules())
      for (const [, name = '', matchers = ''] of expr.matchAll(/\bip_masq_agent_(\w+)(?:\{(.*?)\})?/g))
        assertKnown(name.replace(SUFFIXES, ''), matchers);
    for (const text of [example('runbook.md'), example('rules.yaml')])
      for (const [, name = ''] of text.matchAll(/\bip_masq_agent_(\w+)/g))
        assert.ok(Object.hasOwn(METRICS, name.replace(SUFFIXES, '')), METRIC_PREFIX + name);
  });
});

describe('the scrape configs of examples/prometheus', () => {
  it('are accepted by Prometheus, and give each agent its job, namespace, pod and node', async () => {
    // Debian builds Prometheus without the discovery of Kubernetes: what it would find is written down here.
    const config = load(example('scrape.yaml')) as { scrape_configs: [Record<string, unknown>] };
    const [{ kubernetes_sd_configs: discovery, ...job }] = config.scrape_configs;
    assert.deepEqual(discovery, [
      {
        role: 'pod',
        selectors: [
          { role: 'pod', label: 'app.kubernetes.io/name in (ip-masq-agent, ip-masq-agent-canary)' },
        ],
      },
    ]);
    const found = [
      pod('a', 'metrics', 'Running'),
      pod('b', 'other', 'Running'),
      pod('c', 'metrics', 'Failed'),
      pod('d', 'metrics', 'Running', 'ip-masq-agent-canary'),
    ];
    await using dir = await temporaryDirectory();
    const file = join(dir.path, 'prometheus.json');
    const rules = { rule_files: [examplePath('rules.yaml')] };
    await writeFile(
      file,
      JSON.stringify({ ...config, ...rules, scrape_configs: [{ ...job, static_configs: found }] }),
    );
    await promtool('check', 'config', file);
    const printed = await promtool('check', 'service-discovery', '--timeout=1s', file, 'ip-masq-agent');
    const targets: readonly { labels: Record<string, string> }[] = JSON.parse(printed);
    const labels = targets.map((target) => target.labels ?? {}).filter((known) => 'instance' in known);
    assert.deepEqual(
      labels
        .map(({ job, namespace, pod, node, instance }) => ({ job, namespace, pod, node, instance }))
        .toSorted((a, b) => String(a.job).localeCompare(String(b.job))),
      [
        {
          job: 'ip-masq-agent',
          namespace: 'kube-system',
          pod: 'ip-masq-agent-a',
          node: 'a',
          instance: '192.0.2.1:9614',
        },
        {
          job: 'ip-masq-agent-canary',
          namespace: 'kube-system',
          pod: 'ip-masq-agent-canary-d',
          node: 'd',
          instance: '192.0.2.1:9614',
        },
      ],
    );
  });

  it('select the same pods, port and node label with the Operator', () => {
    const { spec } = load(readFileSync(PODMONITOR, 'utf8')) as { spec: unknown };
    assert.deepEqual(spec, {
      jobLabel: 'app.kubernetes.io/name',
      selector: {
        matchExpressions: [
          {
            key: 'app.kubernetes.io/name',
            operator: 'In',
            values: ['ip-masq-agent', 'ip-masq-agent-canary'],
          },
        ],
      },
      podMetricsEndpoints: [
        {
          port: 'metrics',
          path: '/metrics',
          interval: '30s',
          relabelings: [{ sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'node' }],
        },
      ],
    });
  });
});

interface Inhibition {
  readonly source_matchers: readonly string[];
  readonly target_matchers: readonly string[];
  readonly equal: readonly string[];
}

/** What Prometheus finds of a pod in the cluster. */
function pod(node: string, port: string, phase: string, name = 'ip-masq-agent'): unknown {
  return {
    targets: ['192.0.2.1:9614'],
    labels: {
      __meta_kubernetes_namespace: 'kube-system',
      __meta_kubernetes_pod_name: `${name}-${node}`,
      __meta_kubernetes_pod_label_app_kubernetes_io_name: name,
      __meta_kubernetes_pod_node_name: node,
      __meta_kubernetes_pod_container_port_name: port,
      __meta_kubernetes_pod_phase: phase,
    },
  };
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

function promtool(...args: readonly string[]): Promise<string> {
  const env = { PATH: process.env['PATH'] ?? '/usr/bin' };
  return succeed(run({ file: 'promtool', args }, env));
}

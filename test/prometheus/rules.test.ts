import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { load } from 'js-yaml';
import { run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { ALERT_CASES } from './alert-cases.ts';
import { promtoolTests } from './alerts.ts';
import { example, examplePath, exampleRules } from './support.ts';

describe('the alerts of examples/prometheus', () => {
  it('are rules that Prometheus accepts', async () => {
    await promtool('check', 'rules', '--lint=all', '--lint-fatal', examplePath('rules.yaml'));
  });

  it('fire when they are to, and not else, each of them', async () => {
    await using dir = await temporaryDirectory();
    const file = join(dir.path, 'tests.json');
    await writeFile(file, promtoolTests(examplePath('rules.yaml'), ALERT_CASES));
    await promtool('test', 'rules', file);
    const fired = ALERT_CASES.flatMap(({ firing }) => Object.values(firing).flat());
    const known = exampleRules().flatMap(({ alert = [] }) => alert);
    assert.deepEqual([...new Set(fired.map(({ alert }) => alert))].sort(), known.sort());
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
});

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

function promtool(...args: readonly string[]): Promise<string> {
  const env = { PATH: process.env['PATH'] ?? '/usr/bin' };
  // On a busy machine the tests of all rules take more than the half minute that a tool has otherwise.
  return succeed(run({ file: 'promtool', args }, env, { timeoutMs: 110_000 }));
}

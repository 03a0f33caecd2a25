import assert from 'node:assert/strict';
import { type SpawnOptions, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from 'js-yaml';
import { temporaryDirectory } from '../../lab/volume.ts';
import { type Alert, type Prometheus, startPrometheus } from '../../prometheus/prometheus.ts';
import { example } from '../../prometheus/support.ts';
import type { LocalNode } from '../lab/cluster.ts';
import { configFileText, OTHER_PODS_MEANT } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const STATE_PORT = 18_615;

scenario('a real Prometheus finds the agents, and its alerts fire and resolve', async (lab, t) => {
  const [local] = lab.cluster.localNodes;
  if (local === undefined)
    return t.skip('Prometheus runs in the network of a node, which needs a local cluster');
  const { agent, nodes, namespace } = lab;
  const configFiles = {
    'ip-masq-operator': configFileText(lab, 'pods'),
    'ip-masq-cloud': configFileText(lab),
  };
  await agent.deploy({ configFiles, patches: SCRAPED, args: OTHER_PODS_MEANT });
  await using prometheus = await startIn(lab, local);
  const firing = async () =>
    (await prometheus.firing()).filter(({ labels }) => [undefined, namespace].includes(labels['namespace']));
  const pods = async () =>
    (await agent.pods()).map(({ name, node }) => ({ namespace, pod: name, node })).toSorted(byNode);

  await t.test('it scrapes every agent, with the labels that the alerts need', async () => {
    const up = await until(
      'every agent to be scraped',
      () => prometheus.query(`up{job="ip-masq-agent",namespace="${namespace}"}`),
      (samples) => samples.length >= nodes.length && samples.every(({ value }) => value === 1),
    );
    const labels = up.map(({ metric }) => ({
      namespace: metric['namespace'],
      pod: metric['pod'],
      node: metric['node'],
    }));
    assert.deepEqual(labels.toSorted(byNode), await pods());
    await until(
      "the series of the cluster's state",
      () => prometheus.query(`kube_pod_info{namespace="${namespace}"}`),
      some,
    );
    await until('no alert to fire', firing, none);
  });

  await t.test('a config file that vanishes', async () => {
    await until('the past in which the config file was there', () => prometheus.query(PAST), some);
    await agent.remove('ip-masq-cloud');
    const [alert] = await fires(firing, 'IpMasqAgentConfigFileMissing');
    assert.partialDeepStrictEqual(alert?.labels, { namespace, job: 'ip-masq-agent' });
    await agent.write('ip-masq-cloud', configFiles['ip-masq-cloud']);
    await until('the alert to resolve', firing, none);
  });

  await t.test('agents that crash again and again because of their config', async () => {
    await agent.write('ip-masq-operator', 'nonMasqueradeCIDRs: [10.0.0.1]\n');
    // One alert for the cluster, however many nodes have the config.
    assert.deepEqual(
      (await fires(firing, 'IpMasqAgentConfigRefused')).map(({ labels }) => labels),
      [{ namespace, severity: 'critical' }],
    );
    const crashing = `ip_masq_agent:crash_loop_exit_code{namespace="${namespace}"} == 3`;
    await until(
      'every pod to be counted',
      () => prometheus.query(crashing),
      (samples) => samples.length === nodes.length,
    );
    assert.deepEqual(
      (await firing()).map(({ name }) => name),
      ['IpMasqAgentConfigRefused'],
    );
    await agent.write('ip-masq-operator', configFiles['ip-masq-operator']);
    await agent.podsAre('Ready', ({ isReady }) => isReady);
    await until('the alerts to resolve', firing, none);
  });

  await t.test('agents that are not Ready, because they keep the last valid config', async () => {
    await agent.deploy({
      configFiles,
      patches: SCRAPED,
      args: ['--on-invalid-config=keep', ...OTHER_PODS_MEANT],
    });
    await until(
      'every new agent to be scraped',
      () => prometheus.query(`ip_masq_agent_config_valid{namespace="${namespace}"} == 1`),
      (samples) => samples.length >= nodes.length,
    );
    await agent.write('ip-masq-operator', 'nonMasqueradeCIDRs: [10.0.0.1]\n');
    await fires(firing, 'IpMasqAgentConfigRefused');
    await agent.podsAre(
      'not Ready, and not restarted',
      ({ isReady, container }) => !isReady && container?.restartCount === 0,
    );
    assert.deepEqual([...new Set((await firing()).map(({ name }) => name))], ['IpMasqAgentConfigRefused']);
    await agent.write('ip-masq-operator', configFiles['ip-masq-operator']);
    await until('the alert to resolve', firing, none);
  });
});

/** As the shipped scrape config says in its head: /metrics on the node's address too. */
const SCRAPED = [
  {
    target: { kind: 'DaemonSet', name: 'ip-masq-agent' },
    patch: JSON.stringify([
      {
        op: 'add',
        path: '/spec/template/spec/containers/0/env',
        value: [{ name: 'HOST_IP', valueFrom: { fieldRef: { fieldPath: 'status.hostIP' } } }],
      },
      {
        op: 'add',
        path: '/spec/template/spec/containers/0/args/-',
        value: '--scrape-bind-address=[$(HOST_IP)]:9614',
      },
    ]),
  },
];

/** The left side of the rule for vanished config files, as it is scaled down. */
const PAST = 'last_over_time(ip_masq_agent:config_file_nodes{file="ip-masq-cloud"}[60s:5s]) > 0';

/** The shipped rules. Only the durations differ: with the shipped ones the alerts would take an hour. */
function scaledRules(): string {
  return example('rules.yaml')
    .replaceAll(/^( +for:) \d+m$/gm, '$1 5s')
    .replaceAll('[1d:5m]', '[60s:5s]')
    .replaceAll(/\[\d+m\]/g, '[30s]');
}

interface ScrapeConfig {
  readonly scrape_configs: readonly [{ readonly kubernetes_sd_configs: readonly [Discovery] }];
}

interface Discovery {
  readonly role: string;
  readonly selectors: readonly [{ readonly label: string }];
}

/** Starts it in the network of a node, where it reaches the agents and the API server at the addresses of the nodes. */
async function startIn({ cluster, kubectl }: Lab, { pid }: LocalNode): Promise<Prometheus> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const kubeconfig = join(path, 'kubeconfig');
  await writeFile(kubeconfig, await kubeconfigForNodes(kubectl), { mode: 0o600 });
  const env = { ...process.env, KUBECONFIG: kubeconfig, KUBECTL: cluster.kubectl };
  const inNode = {
    spawn: (file: string, args: readonly string[], options: SpawnOptions = {}) =>
      spawn('nsenter', [`--target=${pid}`, '--net', file, ...args], { ...options, env }),
  };
  const program = fileURLToPath(new URL('../lab/state-metrics.ts', import.meta.url));
  const state = inNode.spawn(process.execPath, [program, `${STATE_PORT}`], {
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  stack.defer(() => {
    state.kill('SIGKILL');
  });
  const loaded = load(example('scrape.yaml')) as ScrapeConfig;
  const [{ kubernetes_sd_configs: discoveries, ...shipped }] = loaded.scrape_configs;
  const [{ role, selectors }] = discoveries;
  assert.equal(role, 'pod');
  const selector = encodeURIComponent(selectors[0].label);
  const agents = {
    ...shipped,
    scrape_interval: '1s',
    scrape_timeout: '1s',
    // Debian builds Prometheus without the discovery for Kubernetes: a program of the tests asks the API server instead.
    http_sd_configs: [
      { url: `http://127.0.0.1:${STATE_PORT}/targets?selector=${selector}`, refresh_interval: '5s' },
    ],
  };
  const states = {
    job_name: 'kube-state-metrics',
    honor_labels: true,
    // It asks the API server at each scrape.
    scrape_interval: '5s',
    scrape_timeout: '5s',
    static_configs: [{ targets: [`127.0.0.1:${STATE_PORT}`] }],
  };
  const prometheus = stack.use(
    await startPrometheus(inNode, { jobs: [agents, states], rules: [scaledRules()] }),
  );
  const owned = stack.move();
  return { ...prometheus, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: object }[];
}

/** With the address of the API server that pods use, instead of the one that this machine uses. */
async function kubeconfigForNodes(kubectl: Lab['kubectl']): Promise<string> {
  const config: Kubeconfig = JSON.parse(
    await kubectl.must('config', 'view', '--raw', '--flatten', '--output=json'),
  );
  const { subsets } = await kubectl.get<{
    readonly subsets: readonly [
      {
        readonly addresses: readonly [{ readonly ip: string }];
        readonly ports: readonly [{ readonly port: number }];
      },
    ];
  }>('endpoints/kubernetes', '--namespace=default');
  const [{ addresses, ports }] = subsets;
  const server = `https://${addresses[0].ip}:${ports[0].port}`;
  const clusters = config.clusters.map((one) => ({ ...one, cluster: { ...one.cluster, server } }));
  return JSON.stringify({ ...config, clusters });
}

async function fires(firing: () => Promise<readonly Alert[]>, name: string): Promise<readonly Alert[]> {
  const all = await until(`${name} to fire`, firing, (alerts) => alerts.some((alert) => alert.name === name));
  return all.filter((alert) => alert.name === name);
}

function byNode(
  a: { readonly node?: string | undefined },
  b: { readonly node?: string | undefined },
): number {
  return (a.node ?? '') < (b.node ?? '') ? -1 : 1;
}

function some(found: readonly unknown[]): boolean {
  return found.length > 0;
}

function none(found: readonly unknown[]): boolean {
  return found.length === 0;
}

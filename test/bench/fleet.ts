/**
 * What a fleet costs a Prometheus: a real one scrapes the metrics of a real agent under the names of many nodes, with what
 * kube-state-metrics tells of them, and evaluates the rules of the examples. Usage: node test/bench/fleet.ts [NODES [MINUTES]]
 */
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { createNode } from '../e2e/support.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { startHelper } from '../lab/helper.ts';
import { startPrometheus } from '../prometheus/prometheus.ts';
import { example } from '../prometheus/support.ts';

const AGENT = '127.0.0.1:9614';
/** Of the servers that play the fleet, on every address of the loopback link. */
const PORT = 9615;
/** As in the examples. */
const INTERVAL = '30s';
const FLEET = fileURLToPath(new URL('fleet-server.ts', import.meta.url));

const [nodes = 1000, minutes = 5] = process.argv.slice(2).map(Number);
const names = Array.from({ length: nodes }, (_, index) => `node-${index}`);

await using node = await createNode();
await node.volume({
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.224.0.0/12, 10.0.0.0/16]\n',
  'ip-masq-operator': 'nonMasqueradeCIDRs: [172.16.0.0/12]\nmasqueradeCIDRs: [172.20.99.0/24]\n',
});
const agent = node.start(`--metrics-bind-address=${AGENT}`);
await agent.logged(new RegExp(AGENT));
await using fetcher = await startHelper<Fetch, Fetched>(
  node.box,
  new URL('../lab/fetcher.ts', import.meta.url),
);
const { body } = await fetcher.ask({ url: `http://${AGENT}/metrics` });

const server = node.box.spawn(process.execPath, [FLEET, `${PORT}`], { stdio: ['pipe', 'pipe', 'inherit'] });
server.stdin?.end(JSON.stringify({ '/metrics': body, '/state': stateMetrics() }));
await new Promise((resolve) => server.stdout?.once('data', resolve));

const scrape = { scrape_interval: INTERVAL, scrape_timeout: '10s' };
const job = (job_name: string, targets: readonly object[], more: object = {}) => ({
  job_name,
  ...scrape,
  ...more,
  static_configs: targets,
});
await using prometheus = await startPrometheus(node.box, {
  jobs: [
    job(
      'ip-masq-agent',
      names.map((name, index) => ({
        targets: [`127.1.${index >> 8}.${index & 255}:${PORT}`],
        labels: { cluster: 'c', namespace: 'kube-system', pod: `ip-masq-agent-${name}`, node: name },
      })),
    ),
    job('state', [{ targets: [`127.0.0.1:${PORT}`], labels: { cluster: 'c' } }], {
      metrics_path: '/state',
      honor_labels: true,
    }),
    job('prometheus', [{ targets: ['127.0.0.1:9090'] }]),
  ],
  rules: [example('rules.yaml').replaceAll(/^( +)(- name: .*)$/gm, `$1$2\n$1  interval: ${INTERVAL}`)],
});
await delay(minutes * 60_000);

const SHOWN: Readonly<Record<string, string>> = {
  'targets that are up': 'sum(up{job="ip-masq-agent"})',
  'time of a scrape, median, s': 'quantile(0.5, scrape_duration_seconds{job="ip-masq-agent"})',
  'time of all rules, s': 'sum(prometheus_rule_group_last_duration_seconds)',
  'time of all rules, worst, s': 'max_over_time(sum(prometheus_rule_group_last_duration_seconds)[1h:30s])',
  'series in memory': 'prometheus_tsdb_head_series',
  'memory of Prometheus, MiB': 'process_resident_memory_bytes{job="prometheus"} / 2^20',
  'CPU of Prometheus, cores': `rate(process_cpu_seconds_total{job="prometheus"}[2m])`,
  'rules that failed': 'sum(prometheus_rule_evaluation_failures_total)',
};
console.log(`${nodes} nodes, scraped and evaluated every ${INTERVAL}, for ${minutes} minutes`);
const series = body.split('\n').filter((line) => /^\w/.test(line));
console.log(`series of a node: ${series.length}`);
const gzipped = gzipSync(body).length;
console.log(`bytes of a scrape: ${Buffer.byteLength(body)}; ${gzipped} if the server compressed it`);
for (const [what, expr] of Object.entries(SHOWN)) {
  const [sample] = await prometheus.query(expr);
  console.log(`${what}: ${sample === undefined ? 'none' : Number(sample.value.toPrecision(3))}`);
}
const firing = await prometheus.firing();
console.log(`alerts that fire: ${firing.map(({ name }) => name).join(', ') || 'none'}`);
server.kill();

/** What the rules need of kube-state-metrics. */
function stateMetrics(): string {
  const lines = names.flatMap((name) => [
    `kube_node_info{node="${name}",os_image="Debian GNU/Linux 12 (bookworm)"} 1`,
    `kube_pod_info{namespace="kube-system",pod="ip-masq-agent-${name}",node="${name}",created_by_kind="DaemonSet",created_by_name="ip-masq-agent"} 1`,
  ]);
  const desired = `kube_daemonset_status_desired_number_scheduled{namespace="kube-system",daemonset="ip-masq-agent"} ${nodes}`;
  return `${[...lines, desired].join('\n')}\n`;
}

/**
 * Serves what Prometheus needs of a cluster, made from what the API server says at each request: at /metrics, series of the
 * names that kube-state-metrics documents; at /targets, what the service discovery for Kubernetes finds with its role `pod`,
 * for a Prometheus that is built without it, as Debian's is.
 * Usage: node state-metrics.ts PORT, with KUBECONFIG and KUBECTL in the environment.
 */
import { createServer } from 'node:http';
import { run, succeed } from '../../lab/run.ts';
import type { ContainerStatus, List, Node, Pod } from './objects.ts';

interface OwnedPod extends Pod {
  readonly spec: Pod['spec'] & {
    readonly containers: readonly {
      readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[];
    }[];
  };
  readonly metadata: Pod['metadata'] & {
    readonly namespace: string;
    readonly labels?: Labels;
    readonly ownerReferences?: readonly { readonly kind: string; readonly name: string }[];
  };
}

interface NodeWithImage extends Node {
  readonly status: Node['status'] & { readonly nodeInfo: { readonly osImage: string } };
}

type Labels = Readonly<Record<string, string>>;

/** See docs/metrics/workload/pod-metrics.md and docs/metrics/cluster/node-metrics.md of kube-state-metrics. */
function podSeries({ metadata, spec, status }: OwnedPod): readonly string[] {
  const { namespace, name: pod } = metadata;
  const [owner] = metadata.ownerReferences ?? [];
  const info = {
    namespace,
    pod,
    node: spec.nodeName ?? '',
    created_by_kind: owner?.kind ?? '<none>',
    created_by_name: owner?.name ?? '<none>',
  };
  const containers = status.containerStatuses ?? [];
  return [
    series('kube_pod_info', info, 1),
    ...containers.flatMap((container) =>
      containerSeries({ namespace, pod, container: container.name }, container),
    ),
  ];
}

function containerSeries(labels: Labels, { state, lastState }: ContainerStatus): readonly string[] {
  const { waiting } = state;
  const { terminated } = lastState;
  return [
    series('kube_pod_container_info', labels, 1),
    ...(waiting === undefined
      ? []
      : [series('kube_pod_container_status_waiting_reason', { ...labels, reason: waiting.reason }, 1)]),
    ...(terminated === undefined
      ? []
      : [series('kube_pod_container_status_last_terminated_exitcode', labels, terminated.exitCode)]),
  ];
}

function nodeSeries({ metadata, status }: NodeWithImage): string {
  return series('kube_node_info', { node: metadata.name, os_image: status.nodeInfo.osImage }, 1);
}

function series(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}=${JSON.stringify(text)}`);
  return `${name}{${pairs.join(',')}} ${value}`;
}

async function list<Item>(...args: readonly string[]): Promise<readonly Item[]> {
  const { KUBECONFIG = '', KUBECTL = 'kubectl', PATH = '', HOME = '/nonexistent' } = process.env;
  const command = { file: KUBECTL, args: ['get', '--output=json', ...args] };
  const { items }: List<Item> = JSON.parse(await succeed(run(command, { KUBECONFIG, PATH, HOME })));
  return items;
}

interface DaemonSet {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly status: { readonly desiredNumberScheduled: number };
}

/** See docs/metrics/workload/daemonset-metrics.md of kube-state-metrics. */
function daemonSetSeries({ metadata: { namespace, name }, status }: DaemonSet): string {
  const labels = { namespace, daemonset: name };
  return series('kube_daemonset_status_desired_number_scheduled', labels, status.desiredNumberScheduled);
}

async function metrics(): Promise<string> {
  const [pods, nodes, daemonSets] = await Promise.all([
    list<OwnedPod>('pods', '--all-namespaces'),
    list<NodeWithImage>('nodes'),
    list<DaemonSet>('daemonsets', '--all-namespaces'),
  ]);
  const lines = [...pods.flatMap(podSeries), ...nodes.map(nodeSeries), ...daemonSets.map(daemonSetSeries)];
  return `${lines.join('\n')}\n`;
}

/** One target for each port, with the labels that Prometheus documents under `kubernetes_sd_config`. */
async function targets(selector: string): Promise<string> {
  const pods = await list<OwnedPod>('pods', '--all-namespaces', `--selector=${selector}`);
  const groups = pods.flatMap(({ metadata, spec, status }) => {
    const [address] = status.podIPs ?? [];
    const ports = spec.containers.flatMap((container) => container.ports ?? []);
    const labels = Object.entries(metadata.labels ?? {}).map(([name, value]) => [
      `pod_label_${name.replaceAll(/[^A-Za-z0-9_]/g, '_')}`,
      value,
    ]);
    return ports.map(({ name, containerPort }) => ({
      targets: address === undefined ? [] : [`${address.ip}:${containerPort}`],
      labels: meta({
        namespace: metadata.namespace,
        pod_name: metadata.name,
        pod_node_name: spec.nodeName ?? '',
        pod_phase: status.phase,
        pod_container_port_name: name ?? '',
        ...Object.fromEntries(labels),
      }),
    }));
  });
  return JSON.stringify(groups);
}

function meta(labels: Labels): Labels {
  return Object.fromEntries(
    Object.entries(labels).map(([name, value]) => [`__meta_kubernetes_${name}`, value]),
  );
}

createServer(async ({ url = '/' }, response) => {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  try {
    if (pathname === '/targets')
      response
        .setHeader('Content-Type', 'application/json')
        .end(await targets(searchParams.get('selector') ?? ''));
    else response.setHeader('Content-Type', 'text/plain; version=0.0.4').end(await metrics());
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
}).listen(Number(process.argv[2]), '127.0.0.1');

// It ends with the process that started it.
process.stdin.on('end', () => process.exit()).resume();

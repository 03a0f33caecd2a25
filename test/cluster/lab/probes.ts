import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Cluster, Family } from './cluster.ts';
import { type Kubectl, kubectlFor, namespaceFor } from './kubectl.ts';
import { isTrue, type List, type Node, type Pod } from './objects.ts';
import { PORT, type Seen } from './probe/errands.ts';
import { type Talk, talkTo } from './talk.ts';

/** An address of each family of the cluster. */
export type Addresses = Readonly<Partial<Record<Family, string>>>;

/** A pod that answers whoever asks for a source, and does errands. */
interface Probe extends Talk {
  readonly pod: string;
  readonly addresses: Addresses;
}

/** A node, with one probe of each kind on it. */
export interface ProbedNode {
  readonly name: string;
  readonly addresses: Addresses;
  /** Its address in the network of pods, which pods of other nodes reach too. Empty if it has none there. */
  readonly gateways: Addresses;
  /** An ordinary pod, that asks. */
  readonly client: Probe;
  /** An ordinary pod, that answers. */
  readonly server: Probe;
  /** In the node's network, and with all rights there: answers at the node's address, and runs programs. */
  readonly host: Probe;
}

export interface Probes extends AsyncDisposable {
  readonly nodes: readonly ProbedNode[];
  /** The ClusterIPs of a Service in front of the servers. */
  readonly service: Addresses;
}

const TEST = new URL('../../', import.meta.url);
const MOUNT = '/probe';
/** That of the manifests. */
export const STATE_DIR = '/var/lib/ip-masq-agent';
const FILES = [
  'lab/run.ts',
  ...['errands', 'flow', 'main', 'processes', 'server', 'talk', 'traffic'].map(
    (name) => `cluster/lab/probe/${name}.ts`,
  ),
];
const CODE = 'probe';
/** The scenarios look at packets between two nodes. */
const NODES = 2;
/** After so many without an answer, an address leads nowhere. */
const MOST_ATTEMPTS = 3;
const KINDS = ['client', 'server', 'host'] as const;
type Kind = (typeof KINDS)[number];

const NAMESPACE = 'ip-masq-test-probes';
const LABEL = 'ip-masq-agent.test/probes';

/**
 * Starts probes on two nodes of the cluster, or takes those that run. They go away in the end, unless CLUSTER_KEEP_PROBES is
 * set: then whoever runs several scenarios calls `removeProbes`.
 */
export async function startProbes(cluster: Cluster): Promise<Probes> {
  await using stack = new AsyncDisposableStack();
  const kubectl = kubectlFor(cluster, NAMESPACE);
  const names = await chooseNodes(kubectl);
  if (!process.env['CLUSTER_KEEP_PROBES']) stack.defer(() => removeProbes(cluster));
  const { data, state } = await code();
  await kubectl.apply(
    namespaceFor(NAMESPACE, LABEL),
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: CODE }, data },
    service(),
    ...KINDS.map((kind) => daemonSet(kind, cluster.image, names, state)),
  );
  await Promise.all(
    KINDS.map((kind) => kubectl.must('rollout', 'status', `daemonset/${kind}`, '--timeout=180s')),
  );
  const { items } = await kubectl.get<List<Pod>>('pods', '--selector=probe');
  const probe = (kind: Kind, node: string): Probe => {
    const pod = items.find(
      ({ metadata, spec }) =>
        metadata.labels?.['probe'] === kind &&
        metadata.deletionTimestamp === undefined &&
        spec.nodeName === node,
    );
    if (pod === undefined) throw new Error(`there is no ${kind} on ${node}`);
    const { name } = pod.metadata;
    const talk = stack.use(talkTo(kubectl, name, `${MOUNT}/cluster/lab/probe/talk.ts`));
    const addresses = byFamily(cluster, pod.status.podIPs?.map(({ ip }) => ip) ?? []);
    return { ...talk, pod: name, addresses };
  };
  const alone = names.map((name) => {
    const [client, server, host] = [probe('client', name), probe('server', name), probe('host', name)];
    return { name, addresses: host.addresses, client, server, host };
  });
  const nodes = await Promise.all(
    alone.map(async (node, index) => {
      const asker = alone[(index + 1) % alone.length] ?? node;
      return { ...node, gateways: await gatewaysOf(cluster, node, asker.client) };
    }),
  );
  const { spec } = await kubectl.get<{ readonly spec: { readonly clusterIPs: readonly string[] } }>(
    'service/server',
  );
  const owned = stack.move();
  return {
    nodes,
    service: byFamily(cluster, spec.clusterIPs),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function chooseNodes(kubectl: Kubectl): Promise<readonly string[]> {
  const { items } = await kubectl.get<List<Node>>('nodes');
  const usable = items.filter(
    ({ spec, status }) =>
      spec.unschedulable !== true &&
      status.nodeInfo.operatingSystem === 'linux' &&
      isTrue(status.conditions, 'Ready'),
  );
  if (usable.length < NODES)
    throw new Error(`the cluster has ${usable.length} Linux nodes that are Ready, not ${NODES}`);
  return usable.slice(0, NODES).map(({ metadata }) => metadata.name);
}

/** @throws {Error} if a family has no address: the cluster is not what the environment says */
function byFamily(cluster: Cluster, addresses: readonly string[]): Addresses {
  const found = pick(cluster, addresses);
  for (const family of cluster.families)
    if (found[family] === undefined)
      throw new Error(`none of the addresses ${addresses.join(', ')} is ${family}`);
  return found;
}

/** The first address of each family. */
function pick({ families }: Cluster, addresses: readonly string[]): Addresses {
  return Object.fromEntries(
    families.flatMap((family) => {
      const address = addresses.find((candidate) => candidate.includes(':') === (family === 'IPv6'));
      return address === undefined ? [] : [[family, address]];
    }),
  );
}

/**
 * The addresses with which a node sends to its own pods, if they are others than its own and lead to it from another node. A
 * busy machine may lose an answer, so silence counts only if it lasts.
 */
async function gatewaysOf(
  cluster: Cluster,
  { host, server, addresses }: Pick<ProbedNode, 'host' | 'server' | 'addresses'>,
  asker: Probe,
): Promise<Addresses> {
  const answerOf = async (from: Probe, address: string): Promise<Seen | undefined> => {
    for (let attempt = 1; ; attempt += 1)
      try {
        return (await from.ask('ask', { targets: [{ protocol: 'tcp', address }] }))[0];
      } catch (error) {
        if (attempt === MOST_ATTEMPTS) throw error;
      }
  };
  const found = await Promise.all(
    Object.values(server.addresses).map(async (pod) => {
      const source = (await answerOf(host, pod))?.source ?? '';
      if (Object.values(addresses).includes(source)) return [];
      const answer = await answerOf(asker, source).catch(() => undefined);
      return answer?.server === host.pod ? [source] : [];
    }),
  );
  return pick(cluster, found.flat());
}

/** Ends what `startProbes` has started. */
export async function removeProbes(cluster: Cluster): Promise<void> {
  await kubectlFor(cluster, NAMESPACE).must('delete', 'namespace', NAMESPACE, '--ignore-not-found');
}

/** The program of the probes, and what changes with it. */
async function code(): Promise<{ readonly data: Readonly<Record<string, string>>; readonly state: string }> {
  const contents = await Promise.all(
    FILES.map(async (file) => [file.replaceAll('/', '_'), await readFile(new URL(file, TEST), 'utf8')]),
  );
  const data = { ...Object.fromEntries(contents), 'package.json': '{"type": "module"}' };
  return { data, state: createHash('sha256').update(JSON.stringify(data)).digest('hex') };
}

function service(): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'server' },
    spec: {
      ipFamilyPolicy: 'PreferDualStack',
      selector: { probe: 'server' },
      ports: (['TCP', 'UDP'] as const).map((protocol) => ({
        name: protocol.toLowerCase(),
        protocol,
        port: PORT,
      })),
    },
  };
}

/** What an agent has of the node, for `cleanup` beside it. */
const OF_THE_NODE = [
  { name: 'xtables-lock', path: '/run/xtables.lock', type: 'FileOrCreate' },
  { name: 'state', path: STATE_DIR, type: 'DirectoryOrCreate' },
] as const;

function daemonSet(kind: Kind, image: string, nodes: readonly string[], state: string): object {
  const labels = { probe: kind };
  const isHost = kind === 'host';
  const container = {
    name: 'probe',
    image,
    command: ['node', `${MOUNT}/cluster/lab/probe/main.ts`],
    env: [{ name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
    // The host's port tells the scheduler, which then says who has it.
    ports: isHost ? [{ containerPort: PORT, hostPort: PORT }] : [],
    readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 1 },
    securityContext: isHost ? { privileged: true } : {},
    volumeMounts: [
      { name: 'code', mountPath: MOUNT },
      ...(isHost ? OF_THE_NODE.map(({ name, path }) => ({ name, mountPath: path })) : []),
    ],
  };
  const items = [
    { key: 'package.json', path: 'package.json' },
    ...FILES.map((file) => ({ key: file.replaceAll('/', '_'), path: file })),
  ];
  const template = {
    // A change of the program replaces the pods.
    metadata: { labels, annotations: { 'ip-masq-agent.test/state': state } },
    spec: {
      ...(isHost && { hostNetwork: true, hostPID: true }),
      automountServiceAccountToken: false,
      // Names are not looked up, so the cluster needs no DNS.
      dnsPolicy: 'Default',
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 2,
      // Probes go on while a scenario taints or drains their node.
      tolerations: [{ operator: 'Exists' }],
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: nodesNamed(nodes) } },
      containers: [container],
      volumes: [
        { name: 'code', configMap: { name: CODE, items } },
        ...(isHost ? OF_THE_NODE.map(({ name, ...hostPath }) => ({ name, hostPath })) : []),
      ],
    },
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: kind },
    spec: { selector: { matchLabels: labels }, template },
  };
}

function nodesNamed(names: readonly string[]): object {
  const matchFields = (name: string) => [{ key: 'metadata.name', operator: 'In', values: [name] }];
  return { nodeSelectorTerms: names.map((name) => ({ matchFields: matchFields(name) })) };
}

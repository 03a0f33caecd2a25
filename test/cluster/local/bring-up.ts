import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type RunResult, run } from '../../lab/run.ts';
import { until } from '../lab/wait.ts';
import { createCgroups } from './cgroups.ts';
import { controlPlane, serverUrl } from './control-plane.ts';
import { USER_NAMES, writeCredentials } from './credentials.ts';
import { createDaemons, type Daemons } from './daemon.ts';
import { openDoor } from './door.ts';
import { toolEnvironment } from './environment.ts';
import { pauseImage } from './image.ts';
import { connect } from './network.ts';
import { type Node, startNode } from './node.ts';
import { type ClusterOptions, type NodeRecord, PROGRAMS, placesOf } from './options.ts';
import { loadImages, prepareWorker, socketOf } from './worker.ts';

const INDICES = [1, 2] as const;
/** Where the nodes see the credentials. */
const PKI = '/run/cluster/pki';

const PROXY_RIGHTS = [
  ...['create', 'clusterrolebinding', 'kube-proxy'],
  ...['--clusterrole', 'system:node-proxier', '--user', 'system:kube-proxy'],
];
/** A node that is ready has a taint for another moment: it goes when the controller-manager has seen the node, too. */
const READY = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{.spec.taints}{" "}{end}';

/** Brings a cluster up, until its nodes are ready. What ends it again is deferred to the stack, also if it fails. */
export async function bringUp(
  options: ClusterOptions,
  stack: AsyncDisposableStack,
  interrupted: Promise<never>,
): Promise<void> {
  const { logs, state } = placesOf(options.directory);
  await rm(logs, { recursive: true, force: true });
  for (const path of [logs, join(state, 'pki')]) await mkdir(path, { recursive: true, mode: 0o700 });
  const daemons = createDaemons(logs);
  stack.defer(() => daemons.stop());
  const nodes = await startNodes(state, logs, stack);
  await Promise.race([fill(nodes, options, daemons), daemons.failed, interrupted]);
  daemons.keep();
}

/** All or none: what was made before a failure is on the stack. */
async function startNodes(
  state: string,
  logs: string,
  stack: AsyncDisposableStack,
): Promise<readonly [Node, Node]> {
  const started = await Promise.allSettled(
    INDICES.map((index) => startNode(index, state, join(logs, `node${index}.log`))),
  );
  for (const result of started) if (result.status === 'fulfilled') stack.defer(() => result.value.end());
  const [one, two] = started;
  for (const result of started) if (result.status === 'rejected') throw result.reason;
  if (one?.status !== 'fulfilled' || two?.status !== 'fulfilled') throw new Error('a cluster has two nodes');
  return [one.value, two.value];
}

/** Namespaces become a cluster. */
async function fill(nodes: readonly [Node, Node], options: ClusterOptions, daemons: Daemons): Promise<void> {
  const { cache, cgroup, kubeconfig, nodes: records, state } = placesOf(options.directory);
  const [first, second] = nodes;
  const pki = join(state, 'pki');
  const [credentials] = await Promise.all([
    writeCredentials(pki),
    connect(first, second, options.families),
    createCgroups(cgroup, ['node1', 'node2']),
  ]);
  for (const user of USER_NAMES)
    await writeSecret(join(pki, `${user}.conf`), credentials.kubeconfig(user, serverUrl(options.families)));
  const programs = controlPlane(first, PKI, options.families);
  say('the namespaces and credentials are there');
  const start = (name: keyof typeof programs) => daemons.start(name, programs[name]);
  start('etcd');
  start('kube-apiserver');
  const workers = Promise.all(nodes.map((node) => startWorker(node, options, state, daemons)));
  await writeSecret(kubeconfig, credentials.kubeconfig('admin', await openDoor(first, options.families)));
  const kubectl = kubectlWith(kubeconfig, cache);
  await until('the API server', () => kubectl('get', '--raw', '/readyz'), isDone);
  say('the API server is ready');
  // The controller-manager gives up if there is no API server yet.
  start('kube-controller-manager');
  start('kube-scheduler');
  await until('the rights of kube-proxy', () => kubectl(...PROXY_RIGHTS), isDone);
  for (const startLate of await workers) startLate();
  say('the nodes start');
  const conditions = () => kubectl('get', 'nodes', '-o', `jsonpath=${READY}`);
  await until('two nodes that are ready', conditions, ({ stdout }) => stdout === 'True True ');
  // A namespace without it has no pods.
  await until('a service account', () => kubectl('get', 'serviceaccount', 'default'), isDone);
  say('the nodes are ready');
  await writeFile(records, JSON.stringify(nodes.map(recordOf), undefined, 2));
}

/** Starts containerd and loads the images; returns what starts the rest, which gives up if there is no API server yet. */
async function startWorker(
  node: Node,
  options: ClusterOptions,
  state: string,
  daemons: Daemons,
): Promise<() => void> {
  const { cgroup } = placesOf(options.directory);
  const worker = await prepareWorker(node, PKI, cgroup, options);
  daemons.start(`containerd-${node.name}`, worker.containerd);
  await loadImages(node, [await pauseImage(join(state, node.name)), ...options.images]);
  return () => {
    daemons.start(`kubelet-${node.name}`, worker.kubelet);
    daemons.start(`kube-proxy-${node.name}`, worker.proxy);
  };
}

function kubectlWith(kubeconfig: string, cache: string) {
  const env = { ...toolEnvironment(), KUBECONFIG: kubeconfig, KUBECACHEDIR: cache };
  return (...args: readonly string[]) => run({ file: join(PROGRAMS, 'kubectl'), args }, env);
}

const isDone = ({ code }: RunResult): boolean => code === 0;

/** To the log: where the time goes. */
function say(what: string): void {
  console.error(`${what} after ${process.uptime().toFixed(1)} s`);
}

function recordOf(node: Node): NodeRecord {
  return { name: node.name, pid: node.pid, directory: node.directory, containerd: socketOf(node) };
}

async function writeSecret(path: string, content: string): Promise<void> {
  await writeFile(path, content, { mode: 0o600 });
}

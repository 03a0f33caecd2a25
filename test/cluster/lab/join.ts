import type { Kubectl } from './kubectl.ts';
import { localNode } from './local-node.ts';
import { ORDINARY, type OrdinaryPods } from './ordinary-pods.ts';
import { addressIn } from './packets.ts';
import type { Lab, LabNode } from './scenario.ts';
import { until } from './wait.ts';

/** What ordinary pods did on a node that has joined. */
export interface Joined {
  /** How many of them have sent before the rules were there: their first packet had the address of the pod. */
  readonly early: number;
  /** How many of all their packets had the address of their pod. */
  readonly bare: number;
}

/** So many packets of each pod have the node's address before a join is over. */
const SETTLED = 10;

/**
 * Makes a node leave the cluster, with all its pods and rules, and join it again as a new one. Returns when kubelet is about to
 * register it. What differs from a new machine: its images are there already.
 */
export async function rejoin({ cluster, kubectl }: Lab, node: LabNode): Promise<void> {
  const local = localNode(cluster, node);
  await kubectl.must('delete', 'node', node.name);
  try {
    await deletePods(kubectl, node);
    await until(`the end of all pods on ${node.name}`, local.podProcesses, (count) => count === 0);
    await local.kill('kube-proxy');
    await node.must('nft', 'flush', 'ruleset');
  } finally {
    // It registers the node when it starts, and then only.
    await local.restart('kubelet');
  }
}

/** kubelet ends them when they are gone, as it cannot tell anybody of a node that is gone. */
async function deletePods(kubectl: Kubectl, { name }: LabNode): Promise<void> {
  const template = '{range .items[*]}{.metadata.namespace} {.metadata.name}{"\\n"}{end}';
  const selector = ['--all-namespaces', `--field-selector=spec.nodeName=${name}`];
  const listed = await kubectl.must('get', 'pods', ...selector, `--output=jsonpath=${template}`);
  const pods = listed
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(' '));
  for (const namespace of new Set(pods.map(([first = '']) => first))) {
    const names = pods.flatMap(([first, pod = '']) => (first === namespace ? [pod] : []));
    const now = ['--force', '--grace-period=0', '--ignore-not-found'];
    await kubectl.must('delete', 'pods', ...names, `--namespace=${namespace}`, ...now);
  }
}

/** Waits until all ordinary pods of a node that joins have sent packets with the node's address, and returns what they did. */
export async function joined(node: LabNode, ordinary: OrdinaryPods): Promise<Joined> {
  const own = addressIn(node.addresses, 'IPv4');
  const counts = await until(
    `packets of all ordinary pods with the address of ${node.name}`,
    ordinary.present,
    (found) => found.length === ORDINARY && found.every(({ sources }) => (sources[own] ?? 0) >= SETTLED),
  );
  const others = counts.flatMap(({ sources }) =>
    Object.entries(sources).map(([source, count]) => (source === own ? 0 : count)),
  );
  return {
    early: counts.filter(({ first }) => first !== own).length,
    bare: others.reduce((total, one) => total + one, 0),
  };
}

import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { ROOT } from '../../image/make.ts';
import type { RunResult } from '../../lab/run.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { type Cluster, isIPv6Alone } from './cluster.ts';
import type { Kubectl } from './kubectl.ts';
import { type ContainerStatus, isTrue, type List, type Pod } from './objects.ts';
import { until } from './wait.ts';

/** What is applied: a shipped overlay, as docs/install.md tells people to use it from a directory of their own. */
export interface Kustomization {
  /** Below examples/kubernetes; if absent, the one for the families of the cluster: `base`, or `overlays/ipv6-only`. */
  readonly overlay?: string;
  /** Names below examples/kubernetes/components. In a cluster of both families, `dual-stack` comes by itself. */
  readonly components?: readonly string[];
  /**
   * Texts of config files. If absent, those of the overlay stay, but for that of dual-stack, which is then empty. The
   * cloud's is added.
   */
  readonly configFiles?: Partial<Record<ConfigFile | DualStackFile, string>>;
  /** More arguments for the agent. */
  readonly args?: readonly string[];
  /** More patches, as kustomize takes them. */
  readonly patches?: readonly object[];
  /** The image, instead of that of the cluster's tests. */
  readonly image?: string;
  /** `shipped` leaves the times of probes and rollouts as they are. */
  readonly pace?: 'shipped' | 'fast';
}

/**
 * The config files that the base mounts, as their ConfigMaps are named: the cloud's, of which it has no ConfigMap, and its
 * own.
 */
export type ConfigFile = 'ip-masq-cloud' | 'ip-masq-operator';
/** That of the component dual-stack. */
type DualStackFile = 'ip-masq-dual-stack';

/** The pod of the agent on one node. */
export interface AgentPod {
  readonly name: string;
  readonly node: string;
  readonly uid: string;
  readonly isReady: boolean;
  /** Undefined as long as kubelet knows nothing of the container. */
  readonly container: ContainerStatus | undefined;
}

/** The agent's DaemonSet in the namespace of the lab. */
export interface Agent {
  /** Applies it, and returns when every node runs it. */
  deploy(kustomization?: Kustomization): Promise<void>;
  /** Applies it, and does not wait. */
  apply(kustomization?: Kustomization): Promise<void>;
  /** Deletes all that it consists of. */
  delete(kustomization?: Kustomization): Promise<void>;
  /** Waits until every node runs what was applied last. */
  rolledOut(): Promise<void>;
  /** Writes the text of a config file to its ConfigMap, which need not exist, and nudges kubelet unless it shall be alone. */
  write(
    configFile: ConfigFile | DualStackFile,
    text: string,
    toVolume?: 'nudged' | 'by kubelet',
  ): Promise<void>;
  /** Deletes the ConfigMap of a config file, and nudges kubelet. */
  remove(configFile: ConfigFile | DualStackFile): Promise<void>;
  /** Makes every kubelet bring the ConfigMaps to the volumes now, by an annotation on the pods. */
  nudge(): Promise<void>;
  pods(): Promise<readonly AgentPod[]>;
  /** Waits until all pods are as wanted. */
  podsAre(what: string, isWanted: (pod: AgentPod) => boolean): Promise<readonly AgentPod[]>;
  /** Runs a command of the agent in its pod on that node, as an operator does. */
  exec(node: string, ...args: readonly string[]): Promise<RunResult>;
  /** The log of the pod on that node: of its container, or of the container before it. */
  log(node: string, ...flags: readonly string[]): Promise<string>;
}

/** An operation of a JSON patch (RFC 6902). */
interface Operation {
  readonly op: 'add' | 'replace';
  readonly path: string;
  readonly value: unknown;
}

/** What asks for each dataplane, whichever fits the node. */
export const DATAPLANES = [
  { backend: 'iptables', components: [], args: ['--backend=iptables'] },
  { backend: 'nftables', components: ['nftables'], args: [] },
] as const;

const CLOUD = 'ip-masq-cloud';
const SELECTOR = '--selector=app.kubernetes.io/name=ip-masq-agent';
const DAEMON_SET = 'daemonset/ip-masq-agent';
/** The overlay that has the component in it. */
export const DUAL_STACK = 'overlays/dual-stack';
const IPV6_ONLY = 'overlays/ipv6-only';
/**
 * kubelet asks every second whether the agent is ready: that saves up to ten seconds where a scenario waits for a pod to be
 * Ready, and thirty where it waits for the opposite. A rollout goes on as soon as a pod is: that saves five seconds a node.
 */
const FAST = [
  containerPatch({ op: 'replace', path: 'readinessProbe/periodSeconds', value: 1 }),
  daemonSetPatch({ op: 'replace', path: 'minReadySeconds', value: 0 }),
];
const SHIPPED_IMAGE = 'registry.example.com/ip-masq-agent';

export function agentIn(kubectl: Kubectl, cluster: Cluster, namespace: string): Agent {
  let nudges = 0;
  const pods = async (): Promise<readonly AgentPod[]> => {
    const { items } = await kubectl.get<List<Pod>>('pods', SELECTOR);
    return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined).map(agentPod);
  };
  const podOn = async (node: string) => {
    const found = (await pods()).find((pod) => pod.node === node);
    if (found === undefined) throw new Error(`no pod of the agent is on ${node}`);
    return found.name;
  };
  const withKustomization = async (command: string, kustomization: Kustomization = {}) => {
    await using stack = new AsyncDisposableStack();
    // kustomize follows symbolic links, and takes relative paths only.
    const { path } = stack.use(await temporaryDirectory());
    const dir = join(await realpath(path), 'my-cluster');
    await mkdir(dir);
    const cloud = kustomization.configFiles?.[CLOUD];
    if (cloud !== undefined) await writeFile(join(dir, `${CLOUD}.yaml`), configMapOf(CLOUD, cloud));
    const content = kustomizationFile(dir, kustomization, cluster, namespace);
    await writeFile(join(dir, 'kustomization.yaml'), JSON.stringify(content));
    await kubectl.must(command, `--kustomize=${dir}`);
  };
  const apply = (kustomization?: Kustomization) => withKustomization('apply', kustomization);
  const nudge = async () => {
    nudges += 1;
    await kubectl.must('annotate', 'pods', SELECTOR, '--overwrite', `ip-masq-agent.test/nudge=${nudges}`);
  };
  const rolledOut = async () => {
    await kubectl.must('rollout', 'status', DAEMON_SET, '--timeout=180s');
  };
  return {
    apply,
    delete: (kustomization) => withKustomization('delete', kustomization),
    rolledOut,
    deploy: async (kustomization) => {
      await apply(kustomization);
      await rolledOut();
    },
    write: async (configFile, text, toVolume = 'nudged') => {
      const data = { [configFile]: text };
      await kubectl.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: configFile }, data });
      if (toVolume === 'nudged') await nudge();
    },
    remove: async (configFile) => {
      await kubectl.must('delete', 'configmap', configFile);
      await nudge();
    },
    nudge,
    pods,
    podsAre: (what, isWanted) =>
      until(`all pods of the agent to be ${what}`, pods, (all) => all.length > 0 && all.every(isWanted)),
    exec: async (node, ...args) => await kubectl.run('exec', await podOn(node), '--', ...args),
    log: async (node, ...flags) => await kubectl.must('logs', await podOn(node), ...flags),
  };
}

function agentPod({ metadata, spec, status }: Pod): AgentPod {
  return {
    name: metadata.name,
    node: spec.nodeName ?? '',
    uid: metadata.uid,
    isReady: isTrue(status.conditions, 'Ready'),
    container: status.containerStatuses?.find(({ name }) => name === 'ip-masq-agent'),
  };
}

function kustomizationFile(
  dir: string,
  {
    overlay: wanted,
    components = [],
    configFiles = {},
    args = [],
    patches = [],
    image,
    pace = 'fast',
  }: Kustomization,
  cluster: Cluster,
  namespace: string,
): object {
  const shipped = (path: string) => relative(dir, join(ROOT, 'examples/kubernetes', path));
  const [, newName = '', newTag = ''] = /^(.*):([^:/]+)$/.exec(image ?? cluster.image) ?? [];
  const overlay = wanted ?? (isIPv6Alone(cluster) ? IPV6_ONLY : 'base');
  const hasIPv6 = [DUAL_STACK, IPV6_ONLY].includes(overlay);
  const needed = cluster.families.includes('IPv6') && !hasIPv6 ? ['dual-stack', ...components] : components;
  // The outside of the lab is in fc00::/7 too, which the component leaves alone.
  const isDual = overlay === DUAL_STACK || needed.includes('dual-stack');
  const { [CLOUD]: cloud, ...own } = configFiles;
  const all = { ...(isDual && { 'ip-masq-dual-stack': 'nonMasqueradeCIDRs: []\n' }), ...own };
  return {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    namespace,
    resources: [shipped(overlay), ...(cloud === undefined ? [] : [`${CLOUD}.yaml`])],
    components: needed.map((component) => shipped(`components/${component}`)),
    images: [{ name: SHIPPED_IMAGE, newName, newTag }],
    patches: [
      ...Object.entries(all).map(([name, text]) => ({ patch: configMapOf(name, text) })),
      ...args.map((arg) => containerPatch({ op: 'add', path: 'args/-', value: arg })),
      ...(pace === 'shipped' ? [] : FAST),
      ...patches,
    ],
  };
}

/** The ConfigMap of a config file. */
function configMapOf(name: string, text: string): string {
  // kube-system is the namespace that the overlay gives to its objects.
  const metadata = { name, namespace: 'kube-system' };
  return JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { [name]: text } });
}

function containerPatch({ path, ...operation }: Operation): object {
  return daemonSetPatch({ ...operation, path: `template/spec/containers/0/${path}` });
}

function daemonSetPatch({ path, ...operation }: Operation): object {
  return {
    target: { kind: 'DaemonSet', name: 'ip-masq-agent' },
    patch: JSON.stringify([{ ...operation, path: `/spec/${path}` }]),
  };
}

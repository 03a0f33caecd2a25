import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Command, run, succeed } from '../../lab/run.ts';
import { until } from '../lab/wait.ts';
import { toolEnvironment } from './environment.ts';
import { PAUSE_IMAGE } from './image.ts';
import { kept, nodeAddresses, PODS, podRanges } from './network.ts';
import type { Node } from './node.ts';
import { type ClusterOptions, type Families, type Image, PROGRAMS } from './options.ts';

const MINUTES_MS = 300_000;
const SOCKET = '/run/containerd/containerd.sock';
/** Debian's package puts them into the first, CNI's own releases into the second. */
export const PLUGIN_DIRECTORIES = ['/usr/lib/cni', '/opt/cni/bin'];

const OTHER_SNAPSHOTTERS = ['aufs', 'btrfs', 'devmapper', 'zfs'];

/** The socket of a node's containerd, for programs on this machine. */
export const socketOf = (node: Node): string => `/proc/${node.pid}/root${SOCKET}`;

/** What makes a machine a node of a cluster, as commands. Their configuration is written to the node's directory. */
export interface Worker {
  readonly containerd: Command;
  readonly kubelet: Command;
  readonly proxy: Command;
}

export async function prepareWorker(
  node: Node,
  pki: string,
  cgroup: string,
  options: Pick<ClusterOptions, 'families' | 'proxyMode'>,
): Promise<Worker> {
  const inside = `/run/cluster/${node.name}`;
  const write = async (name: string, content: object | string): Promise<string> => {
    const text = typeof content === 'string' ? content : JSON.stringify(content, undefined, 2);
    await writeFile(join(node.directory, name), text);
    return `${inside}/${name}`;
  };
  await mkdir(join(node.directory, 'cni'), { recursive: true });
  await write('cni/10-pods.conflist', podNetwork(node, options.families));
  const addresses = kept(options.families, ...nodeAddresses(node.index));
  const [containerd, kubelet, proxy] = await Promise.all([
    write('containerd.toml', containerdConfig(`${inside}/cni`)),
    write('kubelet.json', kubeletConfig(node, pki, cgroup, addresses[0])),
    write('kube-proxy.json', proxyConfig(node, pki, options)),
  ]);
  return {
    containerd: node.wrap('containerd', ['--config', containerd]),
    kubelet: node.wrap(join(PROGRAMS, 'kubelet'), [
      ...['--config', kubelet, '--kubeconfig', `${pki}/${node.name}.conf`, '--cert-dir', `${inside}/pki`],
      ...['--hostname-override', node.name, '--node-ip', addresses.join(), '--v', '2'],
    ]),
    proxy: node.wrap(join(PROGRAMS, 'kube-proxy'), ['--config', proxy, '--v', '2']),
  };
}

/** Waits until the node's containerd answers, then loads the images. */
export async function loadImages(node: Node, images: readonly Image[]): Promise<void> {
  const ctr = (...args: readonly string[]) =>
    run(node.wrap('ctr', ['--namespace', 'k8s.io', ...args]), toolEnvironment(), { timeoutMs: MINUTES_MS });
  await until(
    'containerd',
    () => ctr('version'),
    ({ code }) => code === 0,
  );
  for (const { archive } of images) await succeed(ctr('images', 'import', archive));
}

function podNetwork(node: Node, families: Families): object {
  const bridge = {
    type: 'bridge',
    bridge: 'cni0',
    isGateway: true,
    // What is masqueraded is the agent's to say.
    ipMasq: false,
    hairpinMode: true,
    ipam: {
      type: 'host-local',
      ranges: kept(families, ...podRanges(node.index)).map((subnet) => [{ subnet }]),
      routes: kept(families, '0.0.0.0/0', '::/0').map((dst) => ({ dst })),
    },
  };
  const plugins = [bridge, { type: 'portmap', capabilities: { portMappings: true } }];
  return { cniVersion: '0.4.0', name: 'pods', plugins };
}

/** containerd 1.6 of Debian 12 and all later ones read version 2. */
function containerdConfig(cni: string): string {
  const plugins = PLUGIN_DIRECTORIES.find((path) => existsSync(join(path, 'bridge')));
  if (plugins === undefined) throw new Error(`CNI's plugins are in none of ${PLUGIN_DIRECTORIES.join(', ')}`);
  return `version = 2
# It would load kernel modules for them (modprobe), or warn that there is nothing to use them with.
disabled_plugins = [${OTHER_SNAPSHOTTERS.map((name) => `"io.containerd.snapshotter.v1.${name}"`).join(', ')}]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE_IMAGE}"
  disable_tcp_service = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${plugins}"
    conf_dir = "${cni}"
`;
}

function kubeletConfig(node: Node, pki: string, cgroup: string, address: string | undefined): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: `${pki}/ca.crt` },
    },
    authorization: { mode: 'Webhook' },
    address,
    containerRuntimeEndpoint: `unix://${SOCKET}`,
    // From 1.35 on, kubelet runs on cgroup v1 only if it is told to.
    failCgroupV1: false,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${cgroup}/${node.name}`,
    // The machine's own: its swap, how full its disk is, whom its kernel kills first.
    failSwapOn: false,
    evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '100Mi' },
    imageGCHighThresholdPercent: 100,
    oomScoreAdj: 0,
    // Short, so that tests of crashes and changed ConfigMaps need not wait for minutes.
    crashLoopBackOff: { maxContainerRestartPeriod: '3s' },
    featureGates: { KubeletCrashLoopBackOffMax: true },
    // Also decides when kubelet looks whether a back-off is over.
    syncFrequency: '2s',
  };
}

/** Zeros: the limits of connection tracking are the machine's. */
function proxyConfig(
  node: Node,
  pki: string,
  { families, proxyMode }: Pick<ClusterOptions, 'families' | 'proxyMode'>,
): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    clientConnection: { kubeconfig: `${pki}/proxy.conf` },
    hostnameOverride: node.name,
    clusterCIDR: PODS(families),
    mode: proxyMode,
    oomScoreAdj: 0,
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  };
}

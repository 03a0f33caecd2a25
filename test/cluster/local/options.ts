import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export type ProxyMode = 'iptables' | 'nftables';
export type Families = 'ipv4' | 'ipv6' | 'dual';

/** A container image as an archive, as `docker save` writes it. */
export interface Image {
  readonly name: string;
  readonly archive: string;
}

export interface ClusterOptions {
  /** Everything that the cluster writes is below it. */
  readonly directory: string;
  readonly proxyMode: ProxyMode;
  readonly families: Families;
  /** Loaded into every node. */
  readonly images: readonly Image[];
}

/** Below the project's `bin`: the programs, and a directory for each cluster. */
export const CLUSTER_BIN = fileURLToPath(new URL('../../../bin/cluster', import.meta.url));
export const PROGRAMS = join(CLUSTER_BIN, 'programs');
/** Kubernetes' own tests, and the program in their pods. */
export const TEST_PROGRAMS = join(CLUSTER_BIN, 'test-programs');
/** The directory of `helm`, which the tests of the chart use. */
export const HELM_PROGRAM = join(CLUSTER_BIN, 'helm-program');
/** The cluster of `make cluster-up`. */
export const PLAYGROUND = join(CLUSTER_BIN, 'playground');

export interface Places {
  /** A link whose target says which process owns the directory. */
  readonly owner: string;
  /** Removed when the cluster ends. */
  readonly state: string;
  /** Kept until the next cluster starts in the same directory. */
  readonly logs: string;
  /** For programs on this machine. */
  readonly kubeconfig: string;
  /** Where kubectl keeps what it learnt of the API; in the user's home directory otherwise. */
  readonly cache: string;
  /** A list of `NodeRecord`. */
  readonly nodes: string;
  /** The name of the cgroup that holds the cgroups of all nodes. */
  readonly cgroup: string;
}

export function placesOf(directory: string): Places {
  return {
    owner: join(directory, 'owner'),
    state: join(directory, 'state'),
    logs: join(directory, 'logs'),
    kubeconfig: join(directory, 'kubeconfig'),
    cache: join(directory, 'state', 'kubectl'),
    nodes: join(directory, 'nodes.json'),
    // Two clusters on one machine have two directories.
    cgroup: `ip-masq-cluster-${createHash('sha256').update(directory).digest('hex').slice(0, 12)}`,
  };
}

/** What a supervisor says once the cluster is up, or cannot be. */
export interface Report {
  readonly failure?: string;
}

/** What scenarios learn of a node of a local cluster. */
export interface NodeRecord {
  readonly name: string;
  /** The first process in the node's namespaces, as this machine numbers it. */
  readonly pid: number;
  readonly directory: string;
  /** The socket of the node's containerd. */
  readonly containerd: string;
}

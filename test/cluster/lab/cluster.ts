import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** An IP family as the agent's messages name it. */
export type Family = 'IPv4' | 'IPv6';

/** A node of a local cluster: namespaces of their own on this machine. */
export interface LocalNode {
  readonly name: string;
  /** The init of its namespaces, as this machine numbers it. */
  readonly pid: number;
}

/** The cluster that the scenarios run in, as the environment names it. */
export interface Cluster {
  readonly kubeconfig: string;
  /** The kubectl program. */
  readonly kubectl: string;
  /** The agent's image, which the nodes already hold. */
  readonly image: string;
  /** An image of an earlier agent, if the nodes hold one. */
  readonly oldImage: string | undefined;
  readonly proxyMode: 'iptables' | 'nftables';
  readonly families: readonly Family[];
  /** Empty if the nodes are not on this machine. */
  readonly localNodes: readonly LocalNode[];
}

/** By what the environment calls them. */
const FAMILIES = { ipv4: ['IPv4'], ipv6: ['IPv6'], dual: ['IPv4', 'IPv6'] } as const;

export function isIPv6Alone({ families }: Cluster): boolean {
  return !families.includes('IPv4');
}

/** Where a node's agent serves its status, on loopback. */
export function statusUrl(cluster: Cluster, path: string): string {
  return `http://${isIPv6Alone(cluster) ? '[::1]' : '127.0.0.1'}:9614${path}`;
}

/** @throws {Error} if the environment does not name a cluster */
export function clusterFromEnvironment(): Cluster {
  const directory = process.env['CLUSTER_LOCAL'];
  return {
    kubeconfig: required('KUBECONFIG'),
    kubectl: process.env['KUBECTL'] ?? 'kubectl',
    image: required('CLUSTER_IMAGE'),
    oldImage: process.env['CLUSTER_OLD_IMAGE'] || undefined,
    proxyMode: oneOf('CLUSTER_PROXY_MODE', ['iptables', 'nftables']),
    families: FAMILIES[oneOf('CLUSTER_FAMILIES', ['ipv4', 'ipv6', 'dual'])],
    localNodes: directory ? JSON.parse(readFileSync(join(directory, 'nodes.json'), 'utf8')) : [],
  };
}

function required(name: string): string {
  const value = process.env[name];
  if (value) return value;
  throw new Error(
    `${name} is not set; \`make test-cluster\` sets it, and test/cluster/README.md explains it`,
  );
}

/** The first choice is the default. */
function oneOf<const Choice extends string>(name: string, choices: readonly [Choice, ...Choice[]]): Choice {
  const value = process.env[name] || choices[0];
  const found = choices.find((choice) => choice === value);
  if (found !== undefined) return found;
  throw new Error(`${name} is ${JSON.stringify(value)}; use ${choices.join(' or ')}`);
}

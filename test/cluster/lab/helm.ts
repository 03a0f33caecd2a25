import { join } from 'node:path';
import { run, succeed } from '../../lab/run.ts';
import { toolEnvironment } from '../local/environment.ts';
import { HELM_PROGRAM } from '../local/options.ts';
import type { Cluster } from './cluster.ts';
import type { Kubectl } from './kubectl.ts';
import type { LabNode } from './scenario.ts';

/** Runs Helm to its end; it must succeed. */
export type Helm = (...args: readonly string[]) => Promise<string>;

interface Endpoints {
  readonly subsets: readonly {
    readonly addresses: readonly { readonly ip: string }[];
    readonly ports: readonly { readonly port: number }[];
  }[];
}

const MINUTES_MS = 300_000;

/**
 * Helm in the network of a node of a local cluster, where a registry on the loopback link and the API server can be reached.
 *
 * @param home where Helm keeps what it downloads
 */
export async function helmOn(
  cluster: Cluster,
  { name }: LabNode,
  kubectl: Kubectl,
  home: string,
): Promise<Helm> {
  const node = cluster.localNodes.find((local) => local.name === name);
  if (node === undefined) throw new Error(`${name} is not a node of a local cluster`);
  const { subsets } = await kubectl.get<Endpoints>('endpoints', 'kubernetes', '--namespace=default');
  const [{ addresses: [address] = [], ports: [port] = [] } = {}] = subsets;
  const host = address?.ip.includes(':') ? `[${address.ip}]` : address?.ip;
  const connection = [`--kubeconfig=${cluster.kubeconfig}`, `--kube-apiserver=https://${host}:${port?.port}`];
  const enter = ['--target', `${node.pid}`, '--net', join(HELM_PROGRAM, 'helm')];
  return (...args) => {
    const command = { file: 'nsenter', args: [...enter, ...args, ...connection] };
    return succeed(run(command, toolEnvironment({ HOME: home }), { timeoutMs: MINUTES_MS }));
  };
}

import { join } from 'node:path';
import type { Command } from '../../lab/run.ts';
import { API_PORT, apiServer, PODS, SERVICES } from './network.ts';
import type { Node } from './node.ts';
import { type Families, PROGRAMS } from './options.ts';

const ETCD = 'http://127.0.0.1:2379';
/** What programs in the nodes call the API server. */
export function serverUrl(families: Families): string {
  const host = apiServer(families);
  return `https://${host.includes(':') ? `[${host}]` : host}:${API_PORT}`;
}

type Flags = Readonly<Record<string, string>>;

/** The programs of the control plane; `pki` is the directory of the credentials, as the node sees it. */
export function controlPlane(node: Node, pki: string, families: Families) {
  const program = (name: string, flags: Flags): Command =>
    node.wrap(
      join(PROGRAMS, name),
      Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`),
    );
  return {
    etcd: program('etcd', {
      'data-dir': `/run/cluster/${node.name}/etcd`,
      'listen-client-urls': ETCD,
      'advertise-client-urls': ETCD,
      'listen-peer-urls': 'http://127.0.0.1:2380',
      'log-level': 'error',
      // It ends with the cluster: it need not survive a crash of the machine.
      'unsafe-no-fsync': 'true',
    }),
    'kube-apiserver': program('kube-apiserver', {
      'etcd-servers': ETCD,
      'service-cluster-ip-range': SERVICES(families),
      // All addresses, of both families.
      'bind-address': '::',
      'advertise-address': apiServer(families),
      'secure-port': `${API_PORT}`,
      'client-ca-file': `${pki}/ca.crt`,
      'tls-cert-file': `${pki}/apiserver.crt`,
      'tls-private-key-file': `${pki}/apiserver.key`,
      'kubelet-client-certificate': `${pki}/apiserver.crt`,
      'kubelet-client-key': `${pki}/apiserver.key`,
      'kubelet-preferred-address-types': 'InternalIP',
      'token-auth-file': `${pki}/tokens.csv`,
      'authorization-mode': 'Node,RBAC',
      'allow-privileged': 'true',
      'service-account-key-file': `${pki}/service-accounts.key`,
      'service-account-signing-key-file': `${pki}/service-accounts.key`,
      'service-account-issuer': 'https://kubernetes.default.svc',
    }),
    'kube-controller-manager': program('kube-controller-manager', {
      kubeconfig: `${pki}/controller-manager.conf`,
      'cluster-cidr': PODS(families),
      'allocate-node-cidrs': 'true',
      ...(families === 'dual' && { 'node-cidr-mask-size-ipv6': '64' }),
      'service-account-private-key-file': `${pki}/service-accounts.key`,
      'root-ca-file': `${pki}/ca.crt`,
      'use-service-account-credentials': 'true',
      'leader-elect': 'false',
    }),
    'kube-scheduler': program('kube-scheduler', {
      kubeconfig: `${pki}/scheduler.conf`,
      'leader-elect': 'false',
    }),
  };
}

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run, succeed } from '../../lab/run.ts';
import { toolEnvironment } from './environment.ts';
import { API_SERVERS } from './network.ts';

const SUBJECT_NAMES = [
  ...API_SERVERS.map((address) => `IP:${address}`),
  'IP:127.0.0.1',
  'IP:10.96.0.1',
  'IP:fd00:96::1',
  'DNS:kubernetes.default.svc',
].join(',');

/** Users and their groups, as Kubernetes' own roles name them. */
const USERS = {
  admin: ['admin', 'system:masters'],
  'controller-manager': ['system:kube-controller-manager', ''],
  scheduler: ['system:kube-scheduler', ''],
  proxy: ['system:kube-proxy', ''],
  node1: ['system:node:node1', 'system:nodes'],
  node2: ['system:node:node2', 'system:nodes'],
} as const;

export type User = keyof typeof USERS;
export const USER_NAMES = Object.keys(USERS) as readonly User[];

export interface Credentials {
  /** A configuration with which a program reaches the API server as that user. */
  kubeconfig(user: User, server: string): string;
}

/** Writes an authority, one certificate, the key of service accounts and the users' tokens to a directory. */
export async function writeCredentials(directory: string): Promise<Credentials> {
  const at = (name: string): string => join(directory, name);
  const key = (name: string) => ['-keyout', at(`${name}.key`), '-out', at(`${name}.crt`)];
  await openssl(['-subj', '/CN=cluster', ...key('ca')]);
  // With it the API server answers its clients, and asks the kubelets as a client.
  await openssl([
    ...['-CA', at('ca.crt'), '-CAkey', at('ca.key')],
    ...['-subj', '/O=system:masters/CN=apiserver', '-addext', `subjectAltName=${SUBJECT_NAMES}`],
    ...['-addext', 'basicConstraints=critical,CA:FALSE', ...key('apiserver')],
  ]);
  await writeFile(at('service-accounts.key'), privateKey(), { mode: 0o600 });
  const tokens = new Map(USER_NAMES.map((user) => [user, randomBytes(16).toString('hex')]));
  const lines = USER_NAMES.map((user) => {
    const [name, groups] = USERS[user];
    return `${tokens.get(user)},${name},${name},"${groups}"\n`;
  });
  await writeFile(at('tokens.csv'), lines.join(''), { mode: 0o600 });
  const authority = (await readFile(at('ca.crt'))).toString('base64');
  return {
    kubeconfig: (user, server) =>
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{ name: 'local', cluster: { server, 'certificate-authority-data': authority } }],
        users: [{ name: user, user: { token: tokens.get(user) } }],
        contexts: [{ name: 'local', context: { cluster: 'local', user } }],
        'current-context': 'local',
      }),
  };
}

function privateKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'sec1', format: 'pem' }).toString();
}

async function openssl(args: readonly string[]): Promise<void> {
  const fixed = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '365',
  ];
  await succeed(run({ file: 'openssl', args: [...fixed, ...args] }, toolEnvironment()));
}

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { Agent, createServer, type RequestOptions, request } from 'node:https';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { temporaryDirectory } from '../../lab/volume.ts';
import { writeCredentials } from '../local/credentials.ts';
import { PROGRAMS } from '../local/options.ts';
import { until } from './wait.ts';

/** What a proxy does to a request, by its method and URL: answers with a status, never, or as the API server does. */
type Fault = (method: string, url: string) => number | 'hang' | undefined;

/** etcd and the API server of Kubernetes alone, without any node. */
export interface ApiServer extends AsyncDisposable {
  /** Its URL; by default clients get that of a proxy in front of it. */
  readonly direct: string;
  fault: Fault;
  /** Sends a request as an admin; returns status and value. */
  ask(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ readonly status: number; readonly value: never }>;
  /** The same; throws if the status is not one of success. */
  must(method: string, path: string, body?: object): Promise<never>;
  /** A kubeconfig with that token. */
  kubeconfig(token: string, url?: string): Promise<string>;
  /** Keeps what etcd holds, or takes it back. */
  snapshot(): Promise<void>;
  restore(): Promise<void>;
}

const AGENT = new Agent({ keepAlive: true, maxSockets: 64 });

export async function startApiServer(): Promise<ApiServer> {
  const directory = await temporaryDirectory();
  const at = (name: string) => join(directory.path, name);
  const credentials = await writeCredentials(directory.path);
  const [etcdPort, peerPort, port] = await Promise.all([freePort(), freePort(), freePort()]);
  const admin = JSON.parse(credentials.kubeconfig('admin', '')).users[0].user.token;
  const [key, cert, ca] = ['apiserver.key', 'apiserver.crt', 'ca.crt'].map((name) => readFileSync(at(name)));
  let programs: readonly ChildProcess[] = [];
  let etcd: ChildProcess | undefined;

  const startEtcd = () => {
    etcd = start('etcd', {
      'data-dir': at('etcd'),
      'listen-client-urls': `http://127.0.0.1:${etcdPort}`,
      'advertise-client-urls': `http://127.0.0.1:${etcdPort}`,
      'listen-peer-urls': `http://127.0.0.1:${peerPort}`,
      'log-level': 'error',
      'unsafe-no-fsync': 'true',
    });
    programs = [
      etcd,
      start('kube-apiserver', {
        'etcd-servers': `http://127.0.0.1:${etcdPort}`,
        'service-cluster-ip-range': '10.96.0.0/16',
        'bind-address': '127.0.0.1',
        'secure-port': String(port),
        'cert-dir': at('certs'),
        'client-ca-file': at('ca.crt'),
        'tls-cert-file': at('apiserver.crt'),
        'tls-private-key-file': at('apiserver.key'),
        'token-auth-file': at('tokens.csv'),
        'authorization-mode': 'RBAC',
        'service-account-key-file': at('service-accounts.key'),
        'service-account-signing-key-file': at('service-accounts.key'),
        'service-account-issuer': 'https://kubernetes.default.svc',
      }),
    ];
    return until(
      'the API server',
      async () => (await send('GET', '/readyz', admin, port)).status,
      (is) => is === 200,
    );
  };
  const stop = async () => {
    for (const program of programs.toReversed()) {
      if (program.exitCode !== null || program.signalCode !== null) continue;
      program.kill('SIGKILL');
      await once(program, 'exit');
    }
  };

  const proxy = createServer({ key, cert }, (incoming, outgoing) => {
    const { method = '', url = '', headers } = incoming;
    const fault = server.fault(method, url);
    if (fault === 'hang') return;
    if (fault !== undefined) {
      outgoing.writeHead(fault, { 'Content-Type': 'text/plain' }).end('a fault of the test');
      return;
    }
    const to = request({ ...options(method, url, port), headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
      outgoing.on('close', () => answer.destroy());
    });
    to.on('error', () => outgoing.destroy());
    incoming.pipe(to);
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  const url = `https://127.0.0.1:${(proxy.address() as AddressInfo).port}`;

  const ask: ApiServer['ask'] = (method, path, body) => send(method, path, admin, port, body);
  const server: ApiServer = {
    direct: `https://127.0.0.1:${port}`,
    fault: () => undefined,
    ask,
    must: async (method, path, body) => {
      const { status, value } = await ask(method, path, body);
      if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(value)}`);
      return value;
    },
    kubeconfig: async (token, to = url) => {
      const file = at(`kubeconfig-${to.replace(/.*:/, '')}`);
      const cluster = { server: to, 'certificate-authority-data': ca?.toString('base64') };
      const config = {
        ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
        clusters: [{ name: 'c', cluster }],
        users: [{ name: 'c', user: { token } }],
        contexts: [{ name: 'c', context: { cluster: 'c', user: 'c' } }],
      };
      await writeFile(file, JSON.stringify(config));
      return file;
    },
    snapshot: async () => {
      await stop();
      cpSync(at('etcd'), at('snapshot'), { recursive: true });
      await startEtcd();
    },
    restore: async () => {
      await stop();
      rmSync(at('etcd'), { recursive: true });
      cpSync(at('snapshot'), at('etcd'), { recursive: true });
      await startEtcd();
    },
    [Symbol.asyncDispose]: async () => {
      proxy.closeAllConnections();
      proxy.close();
      await stop();
      await directory[Symbol.asyncDispose]();
    },
  };
  await startEtcd();
  return server;
}

function start(name: string, flags: Readonly<Record<string, string>>): ChildProcess {
  const args = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
  return spawn(join(PROGRAMS, name), args, { stdio: 'ignore' });
}

function options(method: string, path: string, port: number): RequestOptions {
  return { host: '127.0.0.1', port, path, method, agent: AGENT, rejectUnauthorized: false };
}

function send(
  method: string,
  path: string,
  token: string,
  port: number,
  body?: object,
): ReturnType<ApiServer['ask']> {
  return new Promise((resolve, reject) => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': type };
    const out = request({ ...options(method, path, port), headers }, async (answer) => {
      const text = (await answer.toArray()).join('');
      const value = text.startsWith('{') ? JSON.parse(text) : text;
      resolve({ status: answer.statusCode ?? 0, value: value as never });
    });
    out.on('error', reject);
    out.end(body && JSON.stringify(body));
  });
}

async function freePort(): Promise<number> {
  const server = createTcpServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { loadAll } from 'js-yaml';
import type { KubeObject } from '../../../lib/ranges/claims.ts';
import { type ApiServer, startApiServer } from '../lab/api-server.ts';
import { until } from '../lab/wait.ts';
import { PROGRAMS } from '../local/options.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const NO_PROGRAMS = existsSync(join(PROGRAMS, 'kube-apiserver')) ? false : 'needs `make cluster-programs`';
const RBAC = readFileSync(join(ROOT, 'examples/kubernetes/components/ranges/rbac.yaml'), 'utf8');
const CONFIG_MAPS = '/api/v1/namespaces/kube-system/configmaps';
const OWN = `${CONFIG_MAPS}/ip-masq-ranges`;
const ACCOUNTS = '/api/v1/namespaces/kube-system/serviceaccounts';
const POOLS = '/apis/crd.projectcalico.org/v1/ippools';
const PATHS: Readonly<Record<string, string>> = {
  ServiceAccount: ACCOUNTS,
  ClusterRole: '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  ClusterRoleBinding: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  Role: '/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles',
  RoleBinding: '/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings',
};
/** The parts of Calico's CRD that decide: its names and its version. */
const CRD = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'ippools.crd.projectcalico.org' },
  spec: {
    group: 'crd.projectcalico.org',
    names: { kind: 'IPPool', listKind: 'IPPoolList', plural: 'ippools', singular: 'ippool' },
    scope: 'Cluster',
    versions: [
      {
        ...{ name: 'v1', served: true, storage: true },
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

interface Role {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules: readonly {
    readonly verbs: readonly string[];
    readonly resources: readonly string[];
    readonly resourceNames?: readonly string[];
  }[];
}

interface Publisher extends AsyncDisposable {
  readonly child: ChildProcess;
  /** What it has logged. */
  log(): string;
}

let server: ApiServer;
let kubeconfig: string;
/** Of the API server itself, which speaks HTTP/2. */
let direct: string;
const started: Publisher[] = [];

before(async () => {
  if (NO_PROGRAMS) return;
  server = await startApiServer();
  await applyRights();
  const { status } = await server.must('POST', `${ACCOUNTS}/ip-masq-ranges/token`, {
    ...{ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 7200 } },
  });
  kubeconfig = await server.kubeconfig(status['token']);
  direct = await server.kubeconfig(status['token'], server.direct);
});

after(async () => {
  await server?.[Symbol.asyncDispose]();
});

beforeEach(async () => {
  if (NO_PROGRAMS) return;
  for (const one of started.splice(0)) await one[Symbol.asyncDispose]();
  server.fault = () => undefined;
  await server.ask('DELETE', '/api/v1/nodes');
  await server.ask('DELETE', POOLS);
  for (const name of ['ip-masq-ranges', 'ip-masq-operator', 'kubeadm-config'])
    await server.ask('DELETE', `${CONFIG_MAPS}/${name}`);
  await makeConfigMap('ip-masq-operator', { 'ip-masq-operator': 'nonMasqueradeCIDRs: [192.168.0.0/16]\n' });
});

async function applyRights(change = (role: Role): object => role): Promise<void> {
  for (const object of loadAll(RBAC) as Role[]) {
    const path = PATHS[object.kind] ?? assert.fail(object.kind);
    const { status } = await server.ask('POST', path, object.rules === undefined ? object : change(object));
    if (status === 409 && object.rules !== undefined)
      await server.must('PUT', `${path}/${object.metadata.name}`, change(object));
  }
}

async function makeConfigMap(name: string, data: object): Promise<void> {
  await server.must('POST', CONFIG_MAPS, { metadata: { name }, data });
}

async function makeNode(name: string, podCIDR: string, address?: string): Promise<void> {
  await server.must('POST', '/api/v1/nodes', { metadata: { name }, spec: { podCIDR, podCIDRs: [podCIDR] } });
  if (address === undefined) return;
  const status = { addresses: [{ type: 'InternalIP', address }] };
  await server.must('PATCH', `/api/v1/nodes/${name}/status`, { status });
}

/** Starts the program, by default behind the proxy. */
function publisher(...flags: readonly string[]): Publisher {
  return publisherAt(kubeconfig, flags);
}

function publisherAt(config: string, flags: readonly string[]): Publisher {
  const args = ['--metrics-bind-address=', '--termination-log=/nonexistent', ...flags];
  const env = { PATH: process.env['PATH'], KUBECONFIG: config };
  const child = spawn(join(ROOT, 'bin/ip-masq-ranges'), args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (log += text));
  const own: Publisher = {
    child,
    log: () => log,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
  started.push(own);
  return own;
}

/** Runs it to its end. */
async function ended(one: Publisher): Promise<number | null> {
  if (one.child.exitCode === null && one.child.signalCode === null) await once(one.child, 'close');
  return one.child.exitCode;
}

/** The most MiB that it has had resident. */
function peakOf({ child }: Publisher): number {
  const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}

async function own(): Promise<KubeObject | undefined> {
  const { status, value } = await server.ask('GET', OWN);
  return status === 200 ? value : undefined;
}

/** The CIDRs of the list, with spaces between; empty if there is none. */
async function list(): Promise<string> {
  const text = (await own())?.data?.['ip-masq-ranges'] ?? '';
  return [...text.matchAll(/^ {2}- (\S+)/gm)].map(([, cidr]) => cidr).join(' ');
}

async function untilList(wanted: string): Promise<void> {
  await until(`the list ${wanted}`, list, (is) => is === wanted);
}

async function events(): Promise<readonly { readonly reason: string; readonly message: string }[]> {
  return (await server.must('GET', '/api/v1/events'))['items'];
}

test('the list is what is declared, and what Nodes have', { skip: NO_PROGRAMS }, async () => {
  await server.ask('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', CRD);
  await until(
    'the CRD',
    async () => (await server.ask('GET', POOLS)).status,
    (is) => is === 200,
  );
  const pool = { apiVersion: 'crd.projectcalico.org/v1', kind: 'IPPool', metadata: { name: 'default' } };
  await server.must('POST', POOLS, { ...pool, spec: { cidr: '10.1.0.0/16' } });
  await server.must('POST', POOLS, { ...pool, metadata: { name: 'all' }, spec: { cidr: '0.0.0.0/0' } });
  const ClusterConfiguration = 'networking:\n  podSubnet: 10.2.0.0/16,fd00:2::/56\n';
  await makeConfigMap('kubeadm-config', { ClusterConfiguration });
  await makeNode('a', '10.3.0.0/24', '192.168.0.9');
  await makeNode('evil', '::/0', '8.8.8.8');
  assert.equal(await ended(publisher('--once', '--enable-ipv6', '--node-addresses')), 0);
  await untilList('10.1.0.0/16 10.2.0.0/16 10.3.0.0/24 192.168.0.9/32 fd00:2::/56');
  const text = (await own())?.data?.['ip-masq-ranges'] ?? '';
  assert.match(text, /10\.2\.0\.0\/16 # ConfigMap kube-system\/kubeadm-config\n/);
  assert.match(text, /10\.1\.0\.0\/16 # IPPool default\n.*\n.*# Node a\n/);
  const told = (await events()).map(({ message }) => message).join('\n');
  assert.match(told, /IPPool all has the range "0\.0\.0\.0\/0", which is not in --within/);
  for (const range of ['::/0', '8.8.8.8/32'])
    assert.ok(told.includes(`Node evil has the range "${range}"`), told);
  const { metadata } = (await own()) ?? assert.fail();
  assert.equal(await ended(publisher('--once', '--enable-ipv6', '--node-addresses')), 0);
  assert.equal((await own())?.metadata.resourceVersion, metadata.resourceVersion, 'nothing is written twice');
});

test('a dry run prints what it would write, and writes nothing', { skip: NO_PROGRAMS }, async () => {
  await makeNode('a', '10.3.0.0/24');
  const dry = publisher('--dry-run');
  assert.equal(await ended(dry), 4);
  assert.match(
    dry.log(),
    /ip-masq-ranges: \|\n.*\n {4}nonMasqueradeCIDRs:\n {6}- 10\.3\.0\.0\/24 # Node a\n/,
  );
  assert.match(dry.log(), /^ {2}10\.3\.0\.0\/24: masqueraded → not masqueraded$/m);
  assert.equal(await own(), undefined);
});

test('what is deleted or edited comes back', { skip: NO_PROGRAMS }, async () => {
  await makeNode('a', '10.3.0.0/24');
  publisher();
  await untilList('10.3.0.0/24');
  await server.must('DELETE', OWN);
  const begin = performance.now();
  await untilList('10.3.0.0/24');
  assert.ok(performance.now() - begin < 10_000);
  await server.must('PATCH', `${OWN}?fieldManager=a-person`, { data: { 'ip-masq-ranges': 'x: y\n' } });
  await untilList('10.3.0.0/24');
  const told = await until('the Event', events, (all) => all.some(({ reason }) => reason === 'EditPutBack'));
  assert.match(told.map(({ message }) => message).join('\n'), /put back an edit of a-person: /);
});

test('half of the nodes vanish in one listing: their ranges stay for the grace', {
  skip: NO_PROGRAMS,
}, async () => {
  for (const index of [0, 1, 2, 3]) await makeNode(`n${index}`, `10.3.${index}.0/24`);
  assert.equal(await ended(publisher('--once')), 0);
  await untilList('10.3.0.0/22');
  for (const index of [1, 2, 3]) await server.must('DELETE', `/api/v1/nodes/n${index}`);
  assert.equal(await ended(publisher('--once')), 0);
  await untilList('10.3.0.0/22');
  await delay(2_000);
  const refused = publisher('--once', '--grace=1s');
  assert.equal(await ended(refused), 3);
  await untilList('10.3.0.0/22');
  const [, accept] = /accept=(\w+)/.exec(refused.log()) ?? [];
  await server.must('PATCH', OWN, { metadata: { annotations: { 'ip-masq-ranges/accept': accept } } });
  assert.equal(await ended(publisher('--once', '--grace=1s')), 0);
  await untilList('10.3.0.0/24');
});

test('500, 429 and hangs change nothing, and end', { skip: NO_PROGRAMS }, async () => {
  await makeNode('a', '10.3.0.0/24');
  const one = publisher();
  await untilList('10.3.0.0/24');
  const faults = [
    [500, '10.3.1.0/24'],
    [429, '10.3.2.0/24'],
    ['hang', '10.3.3.0/24'],
  ] as const;
  for (const [fault, podCIDR] of faults) {
    server.fault = (method, url) => (method === 'GET' && !url.includes('watch=true') ? fault : undefined);
    await makeNode(`after-${fault}`, podCIDR);
    await delay(1_000);
    server.fault = () => fault;
    await delay(3_000);
    server.fault = () => undefined;
  }
  await untilList('10.3.0.0/22');
  server.fault = () => 500;
  const begin = one.log().length;
  await delay(20_000);
  assert.ok(one.log().length - begin < 2_000, one.log().slice(begin));
});

test('etcd is restored from an older snapshot: what came since stays', { skip: NO_PROGRAMS }, async () => {
  await makeNode('a', '10.3.0.0/24');
  publisher();
  await untilList('10.3.0.0/24');
  await server.snapshot();
  await makeNode('b', '10.3.1.0/24');
  await untilList('10.3.0.0/23');
  await server.restore();
  await until(
    'the older list of Nodes',
    async () => (await server.ask('GET', '/api/v1/nodes/b')).status,
    (is) => is === 404,
  );
  await untilList('10.3.0.0/23');
});

test('5,000 Nodes in 10 s are at most 5 writes, and at most 250 MiB', { skip: NO_PROGRAMS }, async (t) => {
  await makeNode('first', '10.200.0.0/24');
  const one = publisherAt(direct, []);
  await untilList('10.200.0.0/24');
  const images = Array.from({ length: 50 }, (_, index) => ({
    names: [`registry.example.com/some/team/image-${index}@sha256:${'0'.repeat(64)}`],
    sizeBytes: 1,
  }));
  const begin = performance.now();
  let next = 0;
  const workers = Array.from({ length: 32 }, async () => {
    for (let index = next++; index < 5_000; index = next++) {
      const podCIDR = `10.${100 + (index >> 8)}.${index & 255}.0/24`;
      const node = {
        metadata: { name: `n${index}` },
        spec: { podCIDR, podCIDRs: [podCIDR] },
        status: { images },
      };
      await server.must('POST', '/api/v1/nodes', node);
    }
  });
  await Promise.all(workers);
  const seconds = (performance.now() - begin) / 1000;
  await untilList(
    '10.100.0.0/14 10.104.0.0/13 10.112.0.0/14 10.116.0.0/15 10.118.0.0/16 10.119.0.0/17 10.119.128.0/21 10.200.0.0/24',
  );
  const writes = one.log().match(/wrote the ConfigMap/g)?.length ?? 0;
  const watched = peakOf(one);
  const again = publisherAt(direct, ['--once']);
  let listed = 0;
  const timer = setInterval(() => {
    if (existsSync(`/proc/${again.child.pid}/status`)) listed = Math.max(listed, peakOf(again) || 0);
  }, 20);
  assert.equal(await ended(again), 0);
  clearInterval(timer);
  t.diagnostic(
    `measured: ${seconds.toFixed(1)} s, ${writes} writes, peak ${watched.toFixed(0)} MiB watching, ${listed.toFixed(0)} MiB listing`,
  );
  assert.ok(writes - 1 <= Math.max(5, seconds / 5 + 2), `${writes} writes in ${seconds} s`);
  assert.ok(watched <= 250 && listed <= 250, `${watched} ${listed}`);
});

test('it may be killed at each step', { skip: NO_PROGRAMS }, async () => {
  await makeNode('a', '10.3.0.0/24');
  assert.equal(await ended(publisher('--once')), 0);
  await makeNode('b', '10.3.1.0/24');
  await server.must('DELETE', '/api/v1/nodes/a');
  for (let step = 1, isKilled = true; isKilled; step += 1) {
    let asked = 0;
    const one = publisher('--once');
    server.fault = () => {
      asked += 1;
      if (asked === step) one.child.kill('SIGKILL');
      return undefined;
    };
    await ended(one);
    server.fault = () => undefined;
    isKilled = asked >= step;
    assert.ok(['10.3.0.0/24', '10.3.0.0/23'].includes(await list()), await list());
  }
  await untilList('10.3.0.0/23');
});

/** The rules of a role without one verb for one name or kind, each with what is missing. */
function lesser({ kind, rules }: Role) {
  return rules.flatMap((rule, index) => {
    const names = rule.resourceNames ?? [undefined];
    const taken = rule.verbs.flatMap((verb) => names.map((name) => ({ verb, name })));
    return taken.map(({ verb, name }) => {
      const verbs = rule.verbs.filter((one) => one !== verb);
      const others = rule.resourceNames?.filter((one) => one !== name) ?? [];
      const rest = [
        verbs.length > 0 && { ...rule, verbs },
        others.length > 0 && { ...rule, resourceNames: others },
      ];
      const less = rules.toSpliced(index, 1, ...rest.filter((one) => one !== false));
      return { kind, less, verb, what: `${verb} ${rule.resources} ${name ?? ''}` };
    });
  });
}

test('without any one of its rights it says which, and the list stays', { skip: NO_PROGRAMS }, async () => {
  await makeNode('a', '10.3.0.0/24');
  await makeNode('evil', '0.0.0.0/0');
  assert.equal(await ended(publisher('--once')), 0);
  const before = await list();
  const roles = (loadAll(RBAC) as Role[]).filter(({ rules }) => rules);
  // A watch is needed only later.
  for (const { kind, less, verb, what } of roles.flatMap(lesser).filter((one) => one.verb !== 'watch')) {
    await applyRights((role) => (role.kind === kind ? { ...role, rules: less } : role));
    if (verb === 'create' && kind === 'Role') await server.ask('DELETE', OWN);
    if (verb === 'patch') await server.must('PATCH', OWN, { data: { 'ip-masq-ranges': '{}\n' } });
    const run = async () => {
      const one = publisher('--once');
      await ended(one);
      return one.log();
    };
    // The API server learns of other rights a moment later.
    const said = await until(what, run, (log) => log.includes('403'));
    assert.match(said, /403: .* is forbidden: .*; give its service account this right/, what);
    if (verb === 'list') assert.equal(await list(), before, what);
    await applyRights();
    await until(`${what} again`, run, (log) => !log.includes('403'));
    assert.equal(await list(), before, what);
  }
});

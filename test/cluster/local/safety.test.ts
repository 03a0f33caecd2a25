import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Environment, succeed } from '../../lab/run.ts';
import { until } from '../lab/wait.ts';
import { buildPrograms } from './build.ts';
import { stopCluster } from './cluster.ts';
import { PAUSE_IMAGE } from './image.ts';
import { createMachine, differences, type Machine, namespacesIn } from './machine.ts';
import { CLUSTER_BIN, type ClusterOptions, type NodeRecord, placesOf } from './options.ts';
import { livingOwner } from './owner.ts';

const OPTIONS: ClusterOptions = {
  directory: join(CLUSTER_BIN, 'safety'),
  proxyMode: 'nftables',
  families: 'dual',
  images: [],
};
const PLACES = placesOf(OPTIONS.directory);
const HOLDER = fileURLToPath(new URL('hold-cluster.ts', import.meta.url));

/** A pod on each node that has a volume of every kind that leads to mounts or files, and a limit, which leads to a cgroup. */
const PODS = {
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { name: 'pods' },
  spec: {
    selector: { matchLabels: { app: 'pods' } },
    template: {
      metadata: { labels: { app: 'pods' } },
      spec: {
        volumes: [
          { name: 'host', hostPath: { path: '/var/lib/pods-of-a-test', type: 'DirectoryOrCreate' } },
          { name: 'lock', hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' } },
          { name: 'config', configMap: { name: 'kube-root-ca.crt' } },
          { name: 'memory', emptyDir: { medium: 'Memory' } },
          { name: 'disk', emptyDir: {} },
        ],
        containers: [
          {
            name: 'pause',
            image: PAUSE_IMAGE,
            resources: { limits: { memory: '32Mi' } },
            volumeMounts: ['host', 'lock', 'config', 'memory', 'disk'].map((name) => ({
              name,
              mountPath: `/${name}`,
            })),
          },
        ],
      },
    },
  },
};

describe('a local cluster', () => {
  before(() => buildPrograms(console.log));

  it('leaves the machine as it was when it is taken down', () =>
    leavesTheMachineAsItWas(async (holder) => {
      holder.stdin?.end();
      await once(holder, 'exit');
    }));

  it('leaves the machine as it was when its holder is killed', () =>
    leavesTheMachineAsItWas(async (holder) => {
      holder.kill('SIGKILL');
      await until(
        'the end of the supervisor',
        () => livingOwner(PLACES.owner),
        (pid) => pid === undefined,
      );
    }));

  it('is removed by the next command when its supervisor is killed', () =>
    leavesTheMachineAsItWas(async () => {
      process.kill((await livingOwner(PLACES.owner)) ?? 0, 'SIGKILL');
      await stopCluster(OPTIONS.directory);
    }));
});

describe('the comparison', () => {
  it('notices each kind of change', async () => {
    await using machine = await createMachine(PLACES.cgroup);
    const first = await machine.look();
    await succeed(machine.run('touch', '/etc/made', '/var/lib/made'));
    await succeed(machine.run('rm', '/etc/hostname'));
    await succeed(machine.run('mount', '-t', 'tmpfs', 'tmpfs', '/opt'));
    await succeed(machine.run('ip', 'link', 'add', 'made0', 'type', 'veth'));
    const write = "require('node:fs').writeFileSync('/proc/sys/net/ipv4/ip_forward', '1')";
    await succeed(machine.run(process.execPath, '--eval', write));
    const found = differences(first, await machine.look());
    for (const change of [
      /^new: file: .*\/etc\/upper\/made$/,
      /^new: file: .*\/etc\/upper\/hostname$/,
      /^new: file: .*\/var\/upper\/lib\/made$/,
      /^new: mount: .* \/opt /,
      /^new: network: .*made0/,
      /^new: sysctl: \/proc\/sys\/net\/ipv4\/ip_forward:1$/,
    ])
      assert.ok(
        found.some((text) => change.test(text)),
        `${change} is not in ${found.join('\n')}`,
      );
  });
});

async function leavesTheMachineAsItWas(end: (holder: ChildProcess) => Promise<void>): Promise<void> {
  await using machine = await createMachine(PLACES.cgroup);
  const first = await machine.look();
  const holder = machine.spawn(process.execPath, [HOLDER, JSON.stringify(OPTIONS)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  // Whatever fails below: without it, nothing keeps the cluster.
  using _ = { [Symbol.dispose]: () => void holder.kill('SIGKILL') };
  await runPods(machine, await environmentFrom(holder));
  const inNodes = await namespacesOfNodes();
  // Five of each node, and more of each pod.
  assert.ok(inNodes.length > 10, inNodes.join());
  await end(holder);
  await until(
    'the end of all processes of the nodes',
    async () => {
      const all = await namespacesIn('/proc');
      return inNodes.filter((name) => all.has(name));
    },
    (left) => left.length === 0,
  );
  assert.deepEqual(differences(first, await machine.look()), []);
}

async function environmentFrom({ stdout }: ChildProcess): Promise<Environment> {
  if (stdout === null) throw new Error('a holder has an output');
  for await (const line of createInterface({ input: stdout })) return JSON.parse(line);
  throw new Error('the holder ended before the cluster was up');
}

async function runPods(machine: Machine, env: Environment): Promise<void> {
  const { KUBECTL = '' } = env;
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const manifest = join(OPTIONS.directory, 'pods.json');
  await writeFile(manifest, JSON.stringify(PODS));
  for (const args of [
    ['apply', `--filename=${manifest}`],
    ['wait', '--for=jsonpath={.status.numberReady}=2', 'daemonset/pods', '--timeout=2m'],
  ])
    await succeed(machine.run('env', ...variables, KUBECTL, ...args));
}

/** Those of the nodes and of the pods in them. */
async function namespacesOfNodes(): Promise<readonly string[]> {
  const records: readonly NodeRecord[] = JSON.parse(await readFile(PLACES.nodes, 'utf8'));
  const found = await Promise.all(records.map(({ pid }) => namespacesIn(`/proc/${pid}/root/proc`)));
  return found.flatMap((names) => [...names]);
}

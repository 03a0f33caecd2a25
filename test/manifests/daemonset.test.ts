import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  type Container,
  containersOf,
  type DaemonSet,
  EVERY_TAINT,
  isOurs,
  theDaemonSet,
} from './documents.ts';
import { kustomizationsOf } from './kustomize.ts';
import { objectsOf } from './support.ts';

const PATHS = ['base', ...kustomizationsOf('overlays')];

const daemonSets = new Map(
  await Promise.all(PATHS.map(async (path) => [path, theDaemonSet(await objectsOf(path))] as const)),
);

describe('the pods', () => {
  /** What every pod has, whatever it is for. */
  const everywhere: readonly (readonly [
    what: string,
    of: (daemonSet: DaemonSet) => unknown,
    expected: unknown,
  ])[] = [
    ['no token of the API server', pod('automountServiceAccountToken'), false],
    ['the priority of what a node cannot do without', pod('priorityClassName'), 'system-node-critical'],
    ['no process of the node in sight', pod('hostPID'), undefined],
    ['no memory of the node in sight', pod('hostIPC'), undefined],
    [
      'the default filter of system calls',
      ({ spec }) => spec.template.spec.securityContext?.seccompProfile,
      { type: 'RuntimeDefault' },
    ],
    ['a place on every tainted node', pod('tolerations'), EVERY_TAINT],
    ['Linux nodes only', ({ spec }) => spec.template.spec.nodeSelector?.['kubernetes.io/os'], 'linux'],
    [
      'an update that reaches a tenth of the nodes at once',
      ({ spec }) => spec.updateStrategy,
      { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '10%', maxSurge: 0 } },
    ],
    ['the name that the alerts know', ({ metadata }) => metadata.name, 'ip-masq-agent'],
    [
      'the label that the alerts know',
      ({ spec }) => spec.template.metadata.labels?.['app.kubernetes.io/name'],
      'ip-masq-agent',
    ],
    [
      'no node of the canary, and none that has no kernel',
      nodeConditions,
      [
        { key: 'ip-masq-agent/channel', operator: 'NotIn', values: ['canary'] },
        { key: 'type', operator: 'NotIn', values: ['virtual-kubelet'] },
        { key: 'eks.amazonaws.com/compute-type', operator: 'NotIn', values: ['fargate'] },
      ],
    ],
    ['a roll-out that waits at each pod', ({ spec }) => spec.minReadySeconds, 5],
  ];
  for (const [path, daemonSet] of daemonSets)
    for (const [what, of, expected] of everywhere)
      it(`${path}: ${what}`, () => assert.deepEqual(of(daemonSet), expected));

  for (const [path, daemonSet] of daemonSets) {
    const lock = { path: '/run/xtables.lock', type: 'FileOrCreate' };
    const state = { path: '/var/lib/ip-masq-agent', type: 'DirectoryOrCreate' };
    const expected = [...(path.endsWith('nftables') ? [] : [lock]), state];
    it(`${path}: of the node only ${expected.map((hostPath) => hostPath.path).join(' and ')}`, () => {
      const { volumes } = daemonSet.spec.template.spec;
      assert.deepEqual(
        volumes.flatMap(({ hostPath }) => hostPath ?? []),
        expected,
      );
    });
  }
});

describe('the containers', () => {
  for (const [path, daemonSet] of daemonSets)
    for (const container of containersOf(daemonSet)) {
      const { name, securityContext: context = {}, resources } = container;
      it(`${path}: ${name} can gain no right`, () => {
        const { privileged, allowPrivilegeEscalation, capabilities } = context;
        assert.deepEqual([privileged, allowPrivilegeEscalation, capabilities?.drop], [false, false, ['ALL']]);
      });
      it(`${path}: ${name} has limits of memory, and none of CPU, which would only make it late, nor of logs, for which kubelet would evict it`, () => {
        const { requests, limits } = resources as { requests: object; limits: object };
        assert.deepEqual(Object.keys(requests).toSorted(), ['cpu', 'ephemeral-storage', 'memory']);
        assert.deepEqual(Object.keys(limits), ['memory']);
      });
    }

  it('have exactly the rights of those who keep rules', () => {
    const rights = [...daemonSets].flatMap(([path, daemonSet]) =>
      containersOf(daemonSet).map(({ name, securityContext }) => [
        `${path} ${name}`,
        securityContext?.capabilities?.add ?? [],
        securityContext?.runAsUser ?? daemonSet.spec.template.spec.securityContext?.runAsUser,
      ]),
    );
    assert.deepEqual(Object.fromEntries(rights.map(([name, ...of]) => [name, of])), {
      ...Object.fromEntries(PATHS.map((path) => [`${path} ip-masq-agent`, [['NET_ADMIN', 'NET_RAW'], 0]])),
      // nft sends no raw packets, and neither takes the lock.
      'overlays/nftables ip-masq-agent': [['NET_ADMIN'], 0],
    });
  });

  for (const [path, daemonSet] of daemonSets)
    for (const container of containersOf(daemonSet).filter(isOurs))
      it(`${path}: ${container.name} writes nothing but what it is for`, () => {
        assert.equal(container.securityContext?.readOnlyRootFilesystem, true);
        const { volumes } = daemonSet.spec.template.spec;
        const writable = container.volumeMounts.filter(({ readOnly }) => readOnly !== true);
        const kinds = writable.map(({ name }) => volumes.find((volume) => volume.name === name));
        for (const volume of kinds) assert.ok(volume?.emptyDir ?? volume?.hostPath, volume?.name);
      });

  for (const path of PATHS) {
    const container = agentOf(path);
    it(`${path}: reads the config in /etc/config, and cannot change it`, () => {
      const mount = container.volumeMounts.find(({ mountPath }) => mountPath === '/etc/config');
      assert.deepEqual(mount, { name: 'config', mountPath: '/etc/config', readOnly: true });
    });
    it(`${path}: has the time to wait for a busy lock, also for what an earlier run has left, before kubelet ends it`, () => {
      const { periodSeconds = 0, failureThreshold = 0 } = container.startupProbe ?? {};
      // The sync of all families, then each family of the other mode of iptables; and some time to work.
      assert.ok(periodSeconds * failureThreshold >= 30 + 2 * 30 + 20);
      assert.equal(container.startupProbe?.httpGet.path, '/healthz');
      // Where connection tracking is full, it would end each agent.
      assert.equal(container.livenessProbe, undefined);
      assert.equal(container.readinessProbe?.httpGet.path, '/readyz');
    });
  }
});

describe('the overlays', () => {
  it('v1-compatible takes the place of v1: its selector, its ConfigMap, its nodes', () => {
    const { spec } = daemonSets.get('overlays/v1-compatible') ?? assert.fail();
    assert.deepEqual(spec.selector.matchLabels, { 'k8s-app': 'ip-masq-agent' });
    assert.deepEqual(spec.template.spec.nodeSelector, {
      'kubernetes.io/os': 'linux',
      'node.kubernetes.io/masq-agent-ds-ready': 'true',
    });
    assert.deepEqual(filesOf('overlays/v1-compatible'), ['ip-masq-agent config ip-masq-agent']);
  });

  it('gke-style has the one ConfigMap of v1, on all nodes', () => {
    const { spec } = daemonSets.get('overlays/gke-style') ?? assert.fail();
    assert.deepEqual(spec.template.spec.nodeSelector, { 'kubernetes.io/os': 'linux' });
    assert.deepEqual(filesOf('overlays/gke-style'), ['ip-masq-agent config ip-masq-agent']);
  });

  it('aks-style has the ConfigMaps of AKS by their names and keys', () => {
    assert.deepEqual(filesOf('overlays/aks-style'), [
      'azure-ip-masq-agent-config-reconciled ip-masq-agent-reconciled ip-masq-agent-reconciled',
      'azure-ip-masq-agent-config ip-masq-agent ip-masq-agent',
    ]);
  });
});

function pod(key: string): (daemonSet: DaemonSet) => unknown {
  return ({ spec }) => (spec.template.spec as unknown as Record<string, unknown>)[key];
}

/** What a node must fulfil. */
function nodeConditions({ spec }: DaemonSet): readonly unknown[] {
  const { requiredDuringSchedulingIgnoredDuringExecution: required } =
    spec.template.spec.affinity?.nodeAffinity ?? assert.fail('no affinity');
  assert.equal(required.nodeSelectorTerms.length, 1);
  return required.nodeSelectorTerms.flatMap(({ matchExpressions }) => matchExpressions);
}

function agentOf(path: string): Container {
  const daemonSet = daemonSets.get(path) ?? assert.fail(path);
  return containersOf(daemonSet).find(isOurs) ?? assert.fail(path);
}

/** ConfigMap, key and file of every config file. */
function filesOf(path: string): readonly string[] {
  const { spec } = daemonSets.get(path) ?? assert.fail(path);
  return spec.template.spec.volumes.flatMap(({ projected }) =>
    (projected?.sources ?? []).flatMap(({ configMap }) =>
      (configMap?.items ?? []).map(({ key, path: file }) => `${configMap?.name} ${key} ${file}`),
    ),
  );
}

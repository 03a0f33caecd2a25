import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { load } from 'js-yaml';
import { olderAgentRules } from '../../lab/older-agent.ts';
import { succeed } from '../../lab/run.ts';
import type { Kustomization } from '../lab/agent.ts';
import { kubectlCommands, sectionOf } from '../lab/documentation.ts';
import type { List } from '../lab/objects.ts';
import { homeBesideProxy, onlyOwnRules } from '../lab/own-rules.ts';
import {
  ALL_INSIDE,
  cidrs,
  configFileText,
  PODS_INSIDE,
  packets,
  podsInside,
  untilPackets,
} from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { withoutWrongs } from '../lab/traffic.ts';

const REFUSED = /spec\.selector: .*field is immutable/s;

/** An older agent, and what takes its place. */
interface Migration {
  readonly chain: string;
  /** The ConfigMaps that the cluster has, each with the key that is mounted. */
  readonly configMaps: Readonly<Record<string, string>>;
  /** The older agent's volume. */
  readonly volume: object;
  readonly kustomization: Kustomization;
  /** What the documentation says to do before the overlay is applied. */
  prepare(lab: Lab, kustomization: Kustomization): Promise<void>;
}

const DAEMON_SET = 'daemonset/ip-masq-agent';
const V1_VOLUME = { configMap: { name: 'ip-masq-agent', items: [{ key: 'config', path: 'ip-masq-agent' }] } };
const V1_CONFIG = { 'ip-masq-agent': 'config' };
const V2_CONFIGS = {
  'azure-ip-masq-agent-config-reconciled': 'ip-masq-agent-reconciled',
  'azure-ip-masq-agent-config': 'ip-masq-agent',
};

scenario('v1-compatible updates the DaemonSet of v1, and no packet goes wrong', async (lab) => {
  await migrates(lab, {
    chain: 'IP-MASQ-AGENT',
    configMaps: V1_CONFIG,
    volume: V1_VOLUME,
    kustomization: { overlay: 'overlays/v1-compatible', patches: await documentedPatches() },
    prepare: async () => {},
  });
});

scenario('aks-style takes the place of v2, and no packet goes wrong', async (lab) => {
  const sources = Object.entries(V2_CONFIGS).map(([name, key]) => ({
    configMap: { name, items: [{ key, path: key }] },
  }));
  await migrates(lab, {
    chain: 'IP-MASQ-AGENT',
    configMaps: V2_CONFIGS,
    volume: { projected: { sources } },
    kustomization: { overlay: 'overlays/aks-style', patches: [keepConfigMap('azure-ip-masq-agent-config')] },
    prepare: async ({ agent, kubectl }, kustomization) => {
      await assert.rejects(agent.apply(kustomization), REFUSED);
      await kubectl.must('delete', DAEMON_SET);
    },
  });
});

scenario('gke-style takes over the chain IP-MASQ of a v1, and no packet goes wrong', async (lab) => {
  await migrates(lab, {
    chain: 'IP-MASQ',
    configMaps: V1_CONFIG,
    volume: V1_VOLUME,
    kustomization: { overlay: 'overlays/gke-style', patches: [keepConfigMap('ip-masq-agent')] },
    prepare: async () => {},
  });
});

scenario('an overlay with another selector is refused, and comes the documented way', async (lab) => {
  const { agent, kubectl, nodes } = lab;
  await using stack = new AsyncDisposableStack();
  stack.defer(() => removeChain(lab, 'IP-MASQ'));
  const documented = await documentedChange();
  const gke = { overlay: 'overlays/gke-style', patches: [keepConfigMap('ip-masq-agent')] };
  await kubectl.apply(configMap('ip-masq-agent', 'config', configFileText(lab, 'pods')));
  await agent.deploy({ configFiles: podsInside(lab) });
  await untilPackets(lab, PODS_INSIDE);
  await onlyOwnRules(lab, homeBesideProxy(lab));
  await withoutWrongs(lab, 'a change of the overlay', async () => {
    await assert.rejects(agent.apply(gke), REFUSED);
    assert.deepEqual(await packets(lab), PODS_INSIDE);
    const before = (await agent.pods()).map(({ uid }) => uid);
    for (const args of documented.commands)
      if (args[0] === 'apply') await agent.apply(gke);
      else await kubectl.must(...args);
    const after = await agent.pods();
    assert.deepEqual(after.map(({ node }) => node).toSorted(), nodes.map(({ name }) => name).toSorted());
    assert.ok(after.every(({ uid }) => !before.includes(uid)));
    for (const { name } of nodes) await succeed(agent.exec(name, ...documented.inEachPod));
    await onlyOwnRules(lab, { chain: 'IP-MASQ' });
  });
});

scenario(
  'the base is applied again: no config file changes that a controller keeps, and no packet',
  async (lab) => {
    const { agent, kubectl } = lab;
    const base = { configFiles: { 'ip-masq-operator': configFileText(lab, 'pods') } };
    await agent.deploy(base);
    await untilPackets(lab, PODS_INSIDE);
    const kept = configMap('ip-masq-cloud', 'ip-masq-cloud', configFileText(lab, 'nodes'));
    const reconcile = ['apply', '--server-side', '--field-manager=controller-of-the-cloud', '--filename=-'];
    assert.equal((await kubectl.feed(kept, ...reconcile)).code, 0);
    await agent.nudge();
    await untilPackets(lab, ALL_INSIDE);

    const before = await kubectl.get<List<object>>('configmaps');
    await agent.deploy(base);
    assert.deepEqual((await kubectl.get<List<object>>('configmaps')).items, before.items);
    await agent.nudge();
    assert.deepEqual(await packets(lab), ALL_INSIDE);
  },
);

async function migrates(lab: Lab, migration: Migration): Promise<void> {
  const { chain, configMaps, volume, kustomization, prepare } = migration;
  await using stack = new AsyncDisposableStack();
  stack.defer(() => removeChain(lab, chain));
  // v2 merges its files too: the first one has the list, the others are empty.
  const configs = Object.entries(configMaps).map(([name, key], index) =>
    configMap(name, key, configFileText(lab, ...(index === 0 ? (['pods'] as const) : []))),
  );
  await lab.kubectl.apply(...configs, olderDaemonSet(lab, volume));
  await lab.agent.rolledOut();
  await writeOlderRules(lab, chain);
  await untilPackets(lab, PODS_INSIDE);
  await withoutWrongs(lab, 'the migration', async () => {
    const begun = performance.now();
    await prepare(lab, kustomization);
    await lab.agent.deploy(kustomization);
    lab.measured(`rollout of ${kustomization.overlay}`, `${Math.round(performance.now() - begun)} ms`);
    await onlyOwnRules(lab, { chain });
  });
}

/** As the manifests of v1 and v2 have it. Its program does nothing: what an older agent does is in the kernel already. */
function olderDaemonSet({ cluster }: Lab, volume: object): object {
  const labels = { 'k8s-app': 'ip-masq-agent' };
  const container = {
    name: 'ip-masq-agent',
    image: cluster.image,
    command: ['node', '--eval', "process.on('SIGTERM', () => process.exit()); setInterval(() => {}, 1e6);"],
    args: ['--', '--masq-chain=IP-MASQ'],
    securityContext: { privileged: false, capabilities: { add: ['NET_ADMIN', 'NET_RAW'] } },
    volumeMounts: [{ name: 'config', mountPath: '/etc/config' }],
  };
  const template = {
    metadata: { labels },
    spec: { hostNetwork: true, containers: [container], volumes: [{ name: 'config', ...volume }] },
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: 'ip-masq-agent' },
    spec: { selector: { matchLabels: labels }, template },
  };
}

/** One node has rules in the mode nft, the other in the mode legacy: older agents take that of their image. */
async function writeOlderRules(lab: Lab, chain: string): Promise<void> {
  const modes = ['nft', 'legacy'] as const;
  for (const [index, { run }] of lab.nodes.entries())
    for (const family of lab.cluster.families) {
      const isIPv6 = family === 'IPv6';
      const own = cidrs(lab, 'pods').filter((cidr) => cidr.includes(':') === isIPv6);
      const rules = olderAgentRules(chain, [isIPv6 ? 'fe80::/10' : '169.254.0.0/16', ...own]);
      const file = `${isIPv6 ? 'ip6tables' : 'iptables'}-${modes[index]}-restore`;
      await succeed(run(file, ['--noflush', '--wait'], ['*nat', ...rules, 'COMMIT', ''].join('\n')));
    }
}

/** The scenario's own end removes only the default chain. */
async function removeChain({ kubectl, nodes }: Lab, chain: string): Promise<void> {
  await kubectl.must('delete', DAEMON_SET, '--ignore-not-found', '--cascade=foreground');
  for (const { host } of nodes) {
    const args = ['cleanup', `--masq-chain=${chain}`];
    await succeed(host.ask('run', { file: 'ip-masq-agent', args, input: '' }));
  }
}

function configMap(name: string, key: string, text: string): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { [key]: text } };
}

/** Leaves the ConfigMap that the cluster has, in place of the overlay's. */
function keepConfigMap(name: string): object {
  const metadata = { name, namespace: 'kube-system' };
  return { patch: JSON.stringify({ $patch: 'delete', apiVersion: 'v1', kind: 'ConfigMap', metadata }) };
}

/** Those of the kustomization that docs/migration.md has for a v1 that runs on all nodes. */
async function documentedPatches(): Promise<readonly object[]> {
  const page = await readFile(new URL('../../../docs/migration.md', import.meta.url), 'utf8');
  const [, yaml = ''] = /# my-cluster\/kustomization\.yaml\n([\s\S]*?)```/.exec(page) ?? [];
  const { patches } = load(yaml) as { readonly patches: readonly object[] };
  assert.equal(patches.length, 2);
  return patches;
}

interface DocumentedChange {
  /** The arguments of kubectl, in order. */
  readonly commands: readonly (readonly string[])[];
  /** What is run in the pod of each node in the end. */
  readonly inEachPod: readonly string[];
}

async function documentedChange(): Promise<DocumentedChange> {
  const section = await sectionOf('docs/migration.md', 'Another overlay');
  const commands = kubectlCommands(section);
  const [, inPod = ''] = /^ {2}kubectl .* -- (ip-masq-agent .*)$/m.exec(section) ?? [];
  assert.deepEqual(
    commands.map(([verb]) => verb),
    ['delete', 'label', 'apply', 'rollout'],
  );
  assert.match(inPod, /cleanup/);
  return { commands, inEachPod: inPod.split(' ') };
}

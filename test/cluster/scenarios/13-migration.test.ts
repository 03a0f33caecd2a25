import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { load } from 'js-yaml';
import { olderAgentRules } from '../../lab/older-agent.ts';
import { succeed } from '../../lab/run.ts';
import type { Kustomization } from '../lab/agent.ts';
import { debugOn } from '../lab/debug.ts';
import { kubectlCommands, sectionOf } from '../lab/documentation.ts';
import { onlyOwnRules, untilNoRules } from '../lab/own-rules.ts';
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
  /** The ConfigMaps that the cluster has, each with the key that is mounted. */
  readonly configMaps: Readonly<Record<string, string>>;
  /** The older agent's volume. */
  readonly volume: object;
  readonly kustomization: Kustomization;
  /** What the documentation says to do before the overlay is applied. */
  prepare(lab: Lab, kustomization: Kustomization): Promise<void>;
}

const CHAIN = 'IP-MASQ-AGENT';
const DAEMON_SET = 'daemonset/ip-masq-agent';
const V1_VOLUME = { configMap: { name: 'ip-masq-agent', items: [{ key: 'config', path: 'ip-masq-agent' }] } };
const V1_CONFIG = { 'ip-masq-agent': 'config' };
const V2_CONFIGS = {
  'azure-ip-masq-agent-config-reconciled': 'ip-masq-agent-reconciled',
  'azure-ip-masq-agent-config': 'ip-masq-agent',
};

scenario('v1-compatible updates the DaemonSet of v1, and no packet goes wrong', async (lab) => {
  await migrates(lab, {
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
    configMaps: V2_CONFIGS,
    volume: { projected: { sources } },
    kustomization: { overlay: 'overlays/aks-style', patches: [keepConfigMap('azure-ip-masq-agent-config')] },
    prepare: async ({ agent, kubectl }, kustomization) => {
      await assert.rejects(agent.apply(kustomization), REFUSED);
      await kubectl.must('delete', DAEMON_SET);
    },
  });
});

scenario('the agent is uninstalled as the documentation says, and installed again', async (lab, t) => {
  const { agent, kubectl, nodes } = lab;
  const kustomization = { configFiles: podsInside(lab) };
  const commands = kubectlCommands(await sectionOf('docs/install.md', 'Uninstall'));
  assert.deepEqual(
    commands.map(([verb]) => verb),
    ['patch', 'rollout', 'delete', 'debug'],
  );
  const [patch = [], , , debug = []] = commands;
  const noRules = async () => {
    for (const node of nodes) assert.equal(await node.ownRules(), '', node.name);
    assert.deepEqual(await packets(lab), ALL_INSIDE);
  };
  const install = async () => {
    await agent.deploy(kustomization);
    await untilPackets(lab, PODS_INSIDE);
  };

  /** A pod on its way out may still run: it would write the rules again. */
  const uninstall = async () => {
    await agent.delete(kustomization);
    const pods = '--selector=app.kubernetes.io/name=ip-masq-agent';
    await kubectl.must('wait', 'pods', pods, '--for=delete', '--timeout=180s');
  };

  await install();
  await t.test('with --cleanup-on-exit no rule and no object is left', async () => {
    await kubectl.must(...patch);
    await agent.rolledOut();
    await uninstall();
    await untilNoRules(lab);
    await noRules();
    const left = await kubectl.must(
      'get',
      'daemonsets,configmaps,serviceaccounts',
      '--selector=app.kubernetes.io/name',
      '--output=name',
    );
    assert.equal(left, '');
  });

  await t.test('installed again, it works', install);

  await t.test('for a DaemonSet that is deleted already, cleanup in a debug pod of each node', async () => {
    await uninstall();
    for (const { name, ownRules } of nodes) assert.notEqual(await ownRules(), '', name);
    assert.deepEqual(await packets(lab), PODS_INSIDE);
    for (const { name } of nodes) assert.match(await debugOn(lab, name, debug), /removed/);
    await noRules();
  });

  await t.test('installed again, it works', install);
});

async function migrates(lab: Lab, migration: Migration): Promise<void> {
  const { configMaps, volume, kustomization, prepare } = migration;
  // v2 merges its files too: the first one has the list, the others are empty.
  const configs = Object.entries(configMaps).map(([name, key], index) =>
    configMap(name, key, configFileText(lab, ...(index === 0 ? (['pods'] as const) : []))),
  );
  await lab.kubectl.apply(...configs, olderDaemonSet(lab, volume));
  await lab.agent.rolledOut();
  await writeOlderRules(lab);
  await untilPackets(lab, PODS_INSIDE);
  await withoutWrongs(lab, 'the migration', async () => {
    const begun = performance.now();
    await prepare(lab, kustomization);
    await lab.agent.deploy(kustomization);
    lab.measured(`rollout of ${kustomization.overlay}`, `${Math.round(performance.now() - begun)} ms`);
    await onlyOwnRules(lab, { chain: CHAIN });
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
async function writeOlderRules(lab: Lab): Promise<void> {
  const modes = ['nft', 'legacy'] as const;
  for (const [index, { run }] of lab.nodes.entries())
    for (const family of lab.cluster.families) {
      const isIPv6 = family === 'IPv6';
      const own = cidrs(lab, 'pods').filter((cidr) => cidr.includes(':') === isIPv6);
      const rules = olderAgentRules(CHAIN, [isIPv6 ? 'fe80::/10' : '169.254.0.0/16', ...own]);
      const file = `${isIPv6 ? 'ip6tables' : 'iptables'}-${modes[index]}-restore`;
      await succeed(run(file, ['--noflush', '--wait'], ['*nat', ...rules, 'COMMIT', ''].join('\n')));
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

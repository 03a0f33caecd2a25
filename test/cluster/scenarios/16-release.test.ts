import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type Registry, startRegistry } from '../../image/registry.ts';
import { agentIn } from '../lab/agent.ts';
import type { Family } from '../lab/cluster.ts';
import { kubectlCommands, sectionOf } from '../lab/documentation.ts';
import { type Kubectl, kubectlFor } from '../lab/kubectl.ts';
import { localNode } from '../lab/local-node.ts';
import { onlyOwnRules } from '../lab/own-rules.ts';
import { packets, sourceText, untilPackets } from '../lab/packets.ts';
import { type Release, readRelease } from '../lab/release.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { upgradeAndBack } from '../lab/upgrade.ts';
import { until } from '../lab/wait.ts';

/** What the manifest of a release names. */
const NAMESPACE = 'kube-system';
/** The manifest has no component dual-stack. */
const FAMILIES = ['IPv4'] as const;
const CHAIN = { chain: 'IP-MASQ-AGENT' };
/** Those of the image: Debian, Node.js, and the agent. */
const LAYERS = 3;
const MIB = 2 ** 20;

scenario('a release is installed from a registry, and uninstalled as the documentation says', (lab, t) =>
  withRelease(lab, t, FAMILIES, async (system, release) => {
    const { agent, kubectl, nodes } = system;
    for (const args of await documented('Deploy', release)) await kubectl.must(...args);
    await release.isPulled();
    await onlyOwnRules(system, CHAIN);
    // The addresses of the nodes are private, so they are inside.
    assert.deepEqual(await packets(system), { nodes: 'not masqueraded', pods: 'not masqueraded' });
    await agent.write('ip-masq-operator', sourceText(system, 'pods'));
    await agent.nudge();
    await untilPackets(system, { nodes: 'masqueraded', pods: 'not masqueraded' });

    // That one is for a DaemonSet that is deleted already.
    for (const args of await documented('Uninstall', release))
      if (args[0] !== 'debug') await kubectl.must(...args);
    await until(
      'the rules to be gone',
      async () => await Promise.all(nodes.map((node) => node.ownRules())),
      (all) => all.every((rules) => rules === ''),
    );
    assert.equal(await kubectl.must('get', `--filename=${release.manifest}`, '--ignore-not-found'), '');
  }),
);

scenario('iptables: an upgrade by install.yaml of a release, and its rollback', (lab, t) =>
  withRelease(lab, t, FAMILIES, async (system, release) => {
    const { oldImage: image } = system.cluster;
    if (image === undefined) return t.skip('CLUSTER_OLD_IMAGE does not name an image to upgrade from');
    const commands = await documented('Upgrade', release);
    const apply = commands.find((args) => args.includes(release.manifest)) ?? assert.fail('no command');
    await upgradeAndBack(system, CHAIN, { image, pace: 'shipped' }, async () => {
      await system.kubectl.must(...apply);
      await system.agent.rolledOut();
      await release.isPulled();
    });
  }),
);

scenario('nftables: an upgrade by a kustomization with install.yaml in it, and its rollback', (lab, t) =>
  withRelease(lab, t, lab.cluster.families, async (system, release) => {
    const { oldImage: image } = system.cluster;
    if (image === undefined) return t.skip('CLUSTER_OLD_IMAGE does not name an image to upgrade from');
    const kustomization = { components: ['nftables'], pace: 'shipped' } as const;
    await upgradeAndBack(system, 'table', { ...kustomization, image }, async (sources) => {
      await system.agent.deploy({ ...kustomization, sources, manifest: release.manifest });
      await release.isPulled();
    });
  }),
);

/** A release in a registry of each node, and in nothing else that the nodes have. */
interface OfferedRelease extends Release {
  /** Each node has pulled the image by its digest, and runs it. */
  isPulled(): Promise<void>;
}

/** Runs a test in the namespace of the manifest. In the end the cluster is as it was. */
async function withRelease(
  lab: Lab,
  t: TestContext,
  families: readonly Family[],
  test: (system: Lab, release: OfferedRelease) => Promise<void>,
): Promise<void> {
  if (lab.cluster.release === undefined) return t.skip('the nodes have no registry that this test can fill');
  const release = await readRelease(lab.cluster.release);
  const cluster = { ...lab.cluster, families };
  const kubectl = kubectlFor(cluster, NAMESPACE);
  const agent = agentIn(kubectl, cluster, NAMESPACE);
  const system: Lab = { ...lab, cluster, kubectl, agent, namespace: NAMESPACE };
  await using stack = new AsyncDisposableStack();
  const registries = await Promise.all(
    lab.nodes.map(async (node) => {
      const registry = stack.use(await startRegistry(localNode(cluster, node), release.pushed));
      assert.deepEqual(await imagesOn(node, release), [], node.name);
      stack.defer(() => removeImage(node, release));
      return { node, registry };
    }),
  );
  stack.defer(() => removeInstalled(kubectl, release));
  await test(system, {
    ...release,
    isPulled: async () => {
      const running = (await agent.pods()).map(({ container }) => container?.imageID);
      assert.deepEqual(
        running,
        lab.nodes.map(() => release.image),
      );
      for (const { node, registry } of registries)
        lab.measured(`${node.name} pulled`, pulled(registry, release));
    },
  });
}

/** What the documentation says to run, with the manifest of this release. */
async function documented(heading: string, { manifest }: Release): Promise<readonly (readonly string[])[]> {
  return kubectlCommands(await sectionOf('docs/operations.md', heading)).map((args) =>
    args.map((arg) => (arg.endsWith('install.yaml') ? manifest : arg)),
  );
}

/** How much it was, for people: the image's config and all its layers. */
function pulled(registry: Registry, { digest }: Release): string {
  const requests = registry.requests();
  assert.match(requests, new RegExp(`"GET /v2/ip-masq-agent/manifests/${digest} HTTP/1.1" 200 `));
  const sizes = [...requests.matchAll(/"GET \S+\/blobs\/\S+ HTTP\/1.1" 200 (\d+)/g)].map(([, size]) =>
    Number(size),
  );
  assert.equal(sizes.length, 1 + LAYERS, requests);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  return `${sizes.length} blobs, ${(total / MIB).toFixed(1)} MiB`;
}

/** The names that a node has for the image. */
async function imagesOn(node: LabNode, { digest }: Release): Promise<readonly string[]> {
  const names = await images(node, 'list', '--quiet', `target.digest==${digest}`);
  return names.split('\n').filter((name) => name !== '');
}

async function removeImage(node: LabNode, release: Release): Promise<void> {
  await images(node, 'remove', '--sync', ...(await imagesOn(node, release)));
}

/** Of those that kubelet sees. */
function images({ must }: LabNode, ...args: readonly string[]): Promise<string> {
  return must('ctr', '--namespace=k8s.io', 'images', ...args);
}

async function removeInstalled(kubectl: Kubectl, { manifest }: Release): Promise<void> {
  const flags = ['--ignore-not-found', '--cascade=foreground'];
  await kubectl.must('delete', `--filename=${manifest}`, ...flags);
  // Of the component dual-stack.
  await kubectl.must('delete', 'configmap', 'ip-masq-dual-stack', ...flags);
}

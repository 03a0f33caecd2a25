import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type Registry, startRegistry } from '../../image/registry.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { agentIn } from '../lab/agent.ts';
import { commandsOf, kubectlCommands, sectionOf } from '../lab/documentation.ts';
import { helmOn } from '../lab/helm.ts';
import { type Kubectl, kubectlFor } from '../lab/kubectl.ts';
import { localNode } from '../lab/local-node.ts';
import { homeBesideProxy, onlyOwnRules, rulesOf, untilNoRules } from '../lab/own-rules.ts';
import { ALL_INSIDE, cidrs, configFileText, PODS_INSIDE, packets, untilPackets } from '../lab/packets.ts';
import { type Release, readRelease } from '../lab/release.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { withoutWrongs } from '../lab/traffic.ts';
import { upgradeAndBack } from '../lab/upgrade.ts';
import { until } from '../lab/wait.ts';

/** What the manifest of a release names. */
const NAMESPACE = 'kube-system';
/** The manifest has no component dual-stack. */
const FAMILIES = ['IPv4'] as const;
const CHAIN = { chain: 'IP-MASQ-AGENT' };
const REGISTRY = '127.0.0.1:5000';
/** Of the range for benchmarks (RFC 2544). */
const UNUSED = '198.18.0.0/15';
const APP = '--selector=app.kubernetes.io/name=ip-masq-agent';
const OBJECTS = 'daemonsets,configmaps,serviceaccounts';
const MIB = 2 ** 20;

scenario('a release is installed from a registry, and uninstalled as the documentation says', (lab, t) =>
  withRelease(lab, t, async (system, release) => {
    const { agent, kubectl } = system;
    for (const args of await documented('Install', release)) await kubectl.must(...args);
    await release.isPulled();
    await onlyOwnRules(system, homeBesideProxy(system));
    // The addresses of the nodes are private, so they are inside.
    assert.deepEqual(await packets(system), ALL_INSIDE);
    await agent.write('ip-masq-operator', configFileText(system, 'pods'));
    await untilPackets(system, PODS_INSIDE);

    // That one is for a DaemonSet that is deleted already.
    for (const args of await documented('Uninstall', release))
      if (args[0] !== 'debug') await kubectl.must(...args);
    await untilNoRules(system);
    assert.equal(await kubectl.must('get', `--filename=${release.manifest}`, '--ignore-not-found'), '');
  }),
);

scenario('iptables: an upgrade from an earlier commit by install.yaml, and its rollback', (lab, t) =>
  withRelease(lab, t, async (system, release) => {
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

scenario(
  'the Helm chart of a release is installed from a registry, upgraded, rolled back and uninstalled, and no packet goes wrong',
  (lab, t) =>
    withRelease(lab, t, async (system, release) => {
      const { agent, kubectl, nodes } = system;
      await using chart = await chartOf(system, release);
      const pods = async () =>
        (await agent.pods()).map(({ uid, container }) => `${uid} ${container?.restartCount}`);
      await chart.write({});
      await chart.run('Install', 'push', 'template', 'install');
      await agent.rolledOut();
      await release.isPulled();
      await onlyOwnRules(system, homeBesideProxy(system));
      await untilPackets(system, PODS_INSIDE);

      const remove = await chart.documented('Uninstall with Helm');
      await withoutWrongs(system, 'the life of a Helm release', async () => {
        const first = await pods();
        await chart.write({ config: { nonMasqueradeCIDRs: [...cidrs(system, 'pods'), UNUSED] } });
        await chart.run('Upgrade', 'upgrade');
        await agent.nudge();
        await until(
          'the other config on each node',
          () => rulesOf(system),
          (all) => all.every((rules) => rules.includes(UNUSED)),
        );
        assert.deepEqual(await pods(), first, 'a config restarts no pod');

        await chart.write({ flags: { strict: true } });
        await chart.run('Upgrade', 'upgrade');
        await agent.rolledOut();
        const second = await pods();
        assert.ok(second.every((pod) => !first.includes(pod)));
        await chart.run('Roll back', 'rollback');
        await agent.rolledOut();
        assert.ok((await pods()).every((pod) => !second.includes(pod)));
        const rolledBack = await kubectl.must('get', 'daemonset/ip-masq-agent', '--output=jsonpath={..args}');
        assert.doesNotMatch(rolledBack, /--strict/);
        for (const node of nodes) assert.match(await node.ownRules(), new RegExp(UNUSED));
        await onlyOwnRules(system, homeBesideProxy(system));

        await chart.execute(['helm', 'test', 'ip-masq-agent', `--namespace=${NAMESPACE}`]);
        await chart.execute(remove.at(-1) ?? []);
        await kubectl.must('wait', 'pods', APP, '--for=delete', '--timeout=180s');
        await onlyOwnRules(system, homeBesideProxy(system));
        assert.equal(await kubectl.must('get', OBJECTS, APP, '--output=name'), '');
      });

      await chart.write({});
      await chart.run('Install', 'install');
      await agent.rolledOut();
      for (const command of remove) await chart.execute(command);
      await untilNoRules(system);
    }),
);

scenario('a kustomization becomes a release of the Helm chart, and no packet goes wrong', (lab, t) =>
  withRelease(lab, t, async (system, release) => {
    const { agent, kubectl } = system;
    await using chart = await chartOf(system, release);
    const configFiles = { 'ip-masq-operator': configFileText(system, 'pods') };
    await agent.deploy({ manifest: release.manifest, configFiles, pace: 'shipped' });
    await untilPackets(system, PODS_INSIDE);
    await withoutWrongs(system, 'a move to Helm', async () => {
      const before = (await agent.pods()).map(({ uid }) => uid);
      await chart.write({});
      await chart.run('Install', 'push');
      for (const command of await chart.documented(
        'From a kustomization',
        'examples/helm/ip-masq-agent/README.md',
      ))
        await chart.execute(command);
      const after = (await agent.pods()).map(({ uid }) => uid);
      assert.equal(after.length, before.length);
      assert.ok(after.every((uid) => !before.includes(uid)));
      const labelled = await kubectl.must(
        'get',
        OBJECTS,
        '--selector=app.kubernetes.io/managed-by=Helm',
        '--output=name',
      );
      assert.deepEqual(labelled.trim().split('\n').toSorted(), [
        'configmap/ip-masq-operator',
        'daemonset.apps/ip-masq-agent',
        'serviceaccount/ip-masq-agent',
      ]);
      await onlyOwnRules(system, homeBesideProxy(system));
    });
  }),
);

/** The chart of a release, as its page says to use it, with a registry on the node's loopback link. */
interface Chart extends AsyncDisposable {
  /** Writes the values; without a config, the pods' addresses are inside. */
  write(values: Readonly<Record<string, object>>): Promise<void>;
  /** The commands below a heading of a page, for this release. */
  documented(heading: string, page?: string): Promise<readonly (readonly string[])[]>;
  execute(command: readonly string[]): Promise<void>;
  /** Runs those commands of Helm below a heading that have one of these verbs. */
  run(heading: string, ...verbs: readonly string[]): Promise<void>;
}

async function chartOf(system: Lab, release: Release): Promise<Chart> {
  const { cluster, kubectl, nodes } = system;
  await using stack = new AsyncDisposableStack();
  const { path: home } = stack.use(await temporaryDirectory());
  const helm = await helmOn(cluster, nodes[0], kubectl, home);
  stack.defer(async () => {
    await helm('uninstall', 'ip-masq-agent', `--namespace=${NAMESPACE}`, '--ignore-not-found');
  });
  const values = join(home, 'values.json');
  const words: Readonly<Record<string, string>> = {
    'my-values.yaml': values,
    'ip-masq-agent-0.1.0.tgz': release.chart,
    '0.1.0': release.version,
    '0.2.0': release.version,
  };
  const documented = async (heading: string, page = 'docs/install.md') =>
    commandsOf(await sectionOf(page, heading)).map(({ program, args }) => [
      program,
      ...args
        .slice(0, args.includes('|') ? args.indexOf('|') : undefined)
        .map((arg) => (words[arg] ?? arg).replace('registry.example.com', REGISTRY)),
    ]);
  const execute = async ([program = '', ...args]: readonly string[]) => {
    const plain = args.some((arg) => arg.startsWith('oci://')) ? ['--plain-http'] : [];
    await (program === 'helm' ? helm(...args, ...plain) : kubectl.must(...args));
  };
  const owned = stack.move();
  return {
    write: async (given) => {
      const config = { nonMasqueradeCIDRs: cidrs(system, 'pods') };
      await writeFile(values, JSON.stringify({ config, ...given }));
    },
    documented,
    execute,
    run: async (heading, ...verbs) => {
      const found = (await documented(heading)).filter(([program]) => program === 'helm');
      for (const wanted of verbs)
        await execute(found.find(([, verb]) => verb === wanted) ?? assert.fail(`no command ${wanted}`));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A release in a registry of each node, and in nothing else that the nodes have. */
interface OfferedRelease extends Release {
  /** Each node has pulled the image by its digest, and runs it. */
  isPulled(): Promise<void>;
}

/** Runs a test in the namespace of the manifest. In the end the cluster is as it was. */
async function withRelease(
  lab: Lab,
  t: TestContext,
  test: (system: Lab, release: OfferedRelease) => Promise<void>,
): Promise<void> {
  if (lab.cluster.release === undefined) return t.skip('the nodes have no registry that this test can fill');
  const release = await readRelease(lab.cluster.release);
  const cluster = { ...lab.cluster, families: FAMILIES };
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
  const words: Readonly<Record<string, string>> = { '-k': '-f', 'my-cluster': manifest };
  return kubectlCommands(await sectionOf('docs/install.md', heading)).map((args) =>
    args.map((arg) => words[arg] ?? (arg.endsWith('install.yaml') ? manifest : arg)),
  );
}

/** How much it was, for people: the image's config, and the layers that the node did not have. */
function pulled(registry: Registry, { digest }: Release): string {
  const requests = registry.requests();
  assert.match(requests, new RegExp(`"GET /v2/ip-masq-agent/manifests/${digest} HTTP/1.1" 200 `));
  const sizes = [...requests.matchAll(/"GET \/v2\/ip-masq-agent\/blobs\/\S+ HTTP\/1.1" 200 (\d+)/g)].map(
    ([, size]) => Number(size),
  );
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
  await kubectl.must('delete', `--filename=${manifest}`, '--ignore-not-found', '--cascade=foreground');
}

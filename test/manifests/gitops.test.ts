import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { load, loadAll } from 'js-yaml';
import { BINARY } from '../lab/binary.ts';
import { type RunResult, run } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { audit } from './audit.ts';
import { containersOf, isAgent, type KubernetesObject, ofKind } from './documents.ts';
import { CLUSTERS, copyGitops, POOLS } from './gitops.ts';
import { builder } from './support.ts';

/** What keeps Argo CD and Flux from deleting an object, whatever leaves Git. */
const KEPT = {
  'argocd.argoproj.io/sync-options': 'Prune=false,Delete=false',
  'kustomize.toolkit.fluxcd.io/prune': 'disabled',
};
const LIST = 'fleet/prod-eu/rest/kustomization.yaml';

interface ApplicationSet {
  readonly spec: {
    readonly generators: readonly [
      { readonly list: { readonly elements: readonly { readonly cluster: string }[] } },
    ];
    readonly syncPolicy: object;
    readonly template: { readonly spec: { readonly source: { readonly path: string } } };
  };
}

describe('the directory for GitOps', () => {
  const stack = new AsyncDisposableStack();
  let dir: string;
  before(async () => {
    dir = stack.use(await temporaryDirectory()).path;
    await copyGitops(join(dir, 'main'));
  });
  after(() => stack.disposeAsync());

  const read = async (path: string) => loadAll(await readFile(join(dir, 'main', path), 'utf8'));

  for (const cluster of CLUSTERS)
    it(`has two pools in ${cluster}, whose ConfigMaps nobody prunes, and not the ConfigMap of the cloud`, async () => {
      const objects = loadAll(await builder.build(join(dir, 'main/fleet', cluster))) as KubernetesObject[];
      const [cloud] = (await read(`clouds/${cluster}.yaml`)) as [KubernetesObject];
      assert.deepEqual(await audit([...objects, cloud]), []);
      const configMaps = ofKind('ConfigMap', objects);
      assert.deepEqual(
        configMaps.map(({ metadata }) => metadata.name),
        POOLS.map((pool) => `ip-masq-operator-${pool}`),
      );
      for (const { metadata } of configMaps) assert.deepEqual(Object(metadata).annotations, KEPT);
      const daemonSets = ofKind('DaemonSet', objects).filter(isAgent);
      for (const { args = [] } of daemonSets.flatMap(containersOf))
        assert.ok(args.includes(`--require-file=${cloud.metadata.name}`));
      const selectors = daemonSets.map(({ spec }) => JSON.stringify(spec.selector.matchLabels));
      assert.equal(new Set(selectors).size, POOLS.length);
    });

  it('names directories that exist to Argo CD and to Flux', async () => {
    const [{ spec }] = (await read('argo-cd/applicationset.yaml')) as [ApplicationSet];
    const clusters = spec.generators[0].list.elements.map(({ cluster }) => cluster);
    assert.deepEqual(clusters, CLUSTERS);
    assert.deepEqual(spec.syncPolicy, { preserveResourcesOnDeletion: true });
    assert.equal(spec.template.spec.source.path, 'fleet/{{.cluster}}');
    for (const cluster of CLUSTERS) {
      const [flux] = (await read(`flux/${cluster}.yaml`)) as [{ readonly spec: { readonly path: string } }];
      assert.equal(flux.spec.path, `./fleet/${cluster}`);
    }
  });

  it('gives the action inputs that it has, and files that exist', async () => {
    const text = await readFile(join(dir, 'main/ci/github.yaml'), 'utf8');
    const action = await readFile(new URL('../../.github/actions/check/action.yml', import.meta.url), 'utf8');
    const { inputs } = load(action) as { readonly inputs: object };
    const { jobs } = load(text) as {
      readonly jobs: {
        readonly check: { readonly steps: readonly { readonly uses?: string; readonly with: object }[] };
      };
    };
    const { with: given } =
      jobs.check.steps.find(({ uses }) => uses?.includes('/actions/check@')) ?? assert.fail();
    assert.deepEqual(
      Object.keys(given).filter((name) => !(name in inputs)),
      [],
    );
    const paths = text
      .replaceAll(/\$\{\{ matrix\.cluster \}\}/g, 'prod-eu')
      .matchAll(/(?:fleet|clouds|ci)\/[\w./-]*\w/g);
    for (const [path] of paths) assert.ok(existsSync(join(dir, 'main', path)), path);
  });

  it('says in a pull request which addresses change, and refuses mistakes and broken assertions', async () => {
    const good = await pullRequest('good', (text) => text.replace('10.20.99.0/24', '10.20.98.0/24'));
    assert.equal(good.code, 0, good.stderr);
    assert.match(
      good.stdout,
      /^prod-eu, edge:\nIPv4: no verdict changes\nprod-eu, rest:\nIPv4: the verdict changes for 512 addresses\n/,
    );
    const bad = await pullRequest('bad', (text) => text.replace('10.20.99.0/24', '10.20.99.1/24'));
    assert.equal(bad.code, 3);
    assert.match(bad.stdout, /error: DaemonSet kube-system\/ip-masq-agent-rest: .*10\.20\.99\.0\/24/);
    const broken = await pullRequest('broken', (text) => text.replace('10.20.99.0/24', '10.244.0.0/24'));
    assert.equal(broken.code, 4);
    assert.match(broken.stdout, /--must-not-masquerade=10\.244\.0\.0\/16/);
  });

  /** Runs the plain commands in a copy with another list, beside the main branch. */
  async function pullRequest(name: string, edit: (text: string) => string): Promise<RunResult> {
    const mine = join(dir, name);
    await copyGitops(mine);
    await writeFile(join(mine, LIST), edit(await readFile(join(mine, LIST), 'utf8')));
    const trees = [join(dir, 'main'), mine];
    for (const tree of trees)
      for (const cluster of CLUSTERS)
        for (const path of [cluster, ...POOLS.map((pool) => `${cluster}/${pool}`)])
          await writeFile(join(tree, 'fleet', path, 'built'), await builder.build(join(tree, 'fleet', path)));
    const bin = join(mine, 'bin');
    await mkdir(bin);
    await symlink(BINARY, join(bin, 'ip-masq-agent'));
    await writeFile(join(bin, 'kubectl'), '#!/bin/sh\ntest "$1" = kustomize && cat "$2/built"\n');
    await chmod(join(bin, 'kubectl'), 0o755);
    const script = 'cd "$0" && exec ci/pull-request.sh "$1"';
    return await run(
      { file: 'sh', args: ['-c', script, mine, join(dir, 'main')] },
      { PATH: `${bin}:/usr/bin:/bin` },
    );
  }
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { loadAll } from 'js-yaml';
import { temporaryDirectory } from '../lab/volume.ts';
import { audit } from './audit.ts';
import { type ConfigMap, type KubernetesObject, ofKind, theDaemonSet } from './documents.ts';
import { KUBERNETES } from './kustomize.ts';
import { builder } from './support.ts';

/** The kustomizations of each page, as directory and text. Others build on `my-cluster`, the first one. */
const INSTALL = kustomizationsIn('docs/install.md');
const MIGRATION = kustomizationsIn('docs/migration.md');
const IN_CLUSTER = INSTALL.filter(([dir]) => dir === 'my-cluster');

describe('the kustomizations of the documentation', () => {
  for (const [dir, ...others] of [
    ['my-cluster'],
    ['my-edge'],
    ['my-rest'],
    ['my-components'],
    ['my-canary', ...IN_CLUSTER],
  ] as const)
    it(`build what nothing is wrong with: ${dir}`, async () => {
      const objects = await build(dir, [...INSTALL.filter(([name]) => name === dir), ...others]);
      assert.deepEqual(await audit(objects), []);
    });

  it('take the place of the DaemonSets of v1 and v2, whose selector cannot change, and of no ConfigMap', async () => {
    const texts = ['nonMasqueradeCIDRs: [10.0.0.0/8]\n', 'resyncInterval: 60s\n'];
    for (const [index, namespace, names, keys] of [
      [0, 'kube-system', ['ip-masq-agent'], ['config']],
      [
        1,
        'default',
        ['ip-masq-agent-config', 'ip-masq-agent-config-reconciled'],
        ['ip-masq-agent', 'ip-masq-agent-reconciled'],
      ],
    ] as const) {
      const objects = await build('my-cluster', MIGRATION.slice(index, index + 1));
      const { metadata, spec } = theDaemonSet(objects);
      assert.deepEqual([metadata.name, metadata.namespace], ['ip-masq-agent', namespace]);
      assert.deepEqual(spec.selector.matchLabels, { 'k8s-app': 'ip-masq-agent' });
      assert.deepEqual(spec.template.spec.nodeSelector, { 'kubernetes.io/os': 'linux' });
      assert.deepEqual(ofKind('ConfigMap', objects), []);
      const there = names.map((name, at) =>
        configMap(namespace, name, { [keys[at] ?? '']: texts[at] ?? '' }),
      );
      assert.deepEqual(await audit([...objects, ...there]), []);
    }
  });

  for (const [one, other] of [
    ['my-canary', 'my-cluster'],
    ['my-edge', 'my-rest'],
  ] as const)
    it(`share no object and no pod: ${one} and ${other}`, async () => {
      const both = await Promise.all([one, other].map((dir) => build(dir, INSTALL)));
      const names = both.flat().map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      assert.equal(new Set(names).size, names.length, names.join());
      const [own, others] = both.map((objects) => theDaemonSet(objects).spec);
      const selected = { ...own?.template.metadata.labels, ...others?.selector.matchLabels };
      assert.notDeepEqual(selected, own?.template.metadata.labels);
    });

  it('cover every node once by two pools: nodes with a label, and all others', async () => {
    const [edge, rest] = await Promise.all(
      ['my-edge', 'my-rest'].map(async (dir) => theDaemonSet(await build(dir, INSTALL)).spec.template.spec),
    );
    const [ofEdge, ofRest] = [edge, rest].map(
      (spec) =>
        spec?.affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]
          ?.matchExpressions,
    );
    assert.deepEqual(edge?.nodeSelector, { ...rest?.nodeSelector, pool: 'edge' });
    assert.ok(ofEdge);
    assert.deepEqual(ofRest, [...ofEdge, { key: 'pool', operator: 'NotIn', values: ['edge'] }]);
  });
});

type Kustomization = readonly [dir: string, text: string];

function kustomizationsIn(page: string): readonly Kustomization[] {
  const text = readFileSync(join(KUBERNETES, '../..', page), 'utf8');
  return [...text.matchAll(/^( *)```yaml\n *# ([\w-]+)\/kustomization\.yaml\n(.*?)^\1```$/gms)].map(
    ([, indent = '', dir = '', block = '']) => [dir, block.replaceAll(new RegExp(`^${indent}`, 'gm'), '')],
  );
}

/** What one of them builds with the others beside it, the examples from this checkout instead of the repository. */
async function build(dir: string, all: readonly Kustomization[]): Promise<readonly KubernetesObject[]> {
  await using temporary = await temporaryDirectory();
  const path = await realpath(temporary.path);
  for (const [name, text] of all) {
    await mkdir(join(path, name));
    const examples = relative(join(path, name), await realpath(KUBERNETES));
    const own = text
      .replaceAll(/https:\S+?\/examples\/kubernetes\/([^?]*)\?ref=\S*/g, `${examples}/$1`)
      .replaceAll('../examples/kubernetes', examples)
      .replace('sha256:…', `sha256:${'ab'.repeat(32)}`);
    await writeFile(join(path, name, 'kustomization.yaml'), own);
  }
  return loadAll(await builder.build(join(path, dir))) as readonly KubernetesObject[];
}

function configMap(
  namespace: string,
  name: string,
  data: Readonly<Record<string, string>>,
): ConfigMap & KubernetesObject {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data } as ConfigMap;
}

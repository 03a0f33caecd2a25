import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { load } from 'js-yaml';
import packageJson from '../../package.json' with { type: 'json' };
import { audit } from './audit.ts';
import { documentsOf, KUBERNETES, kustomizationsOf } from './kustomize.ts';
import { builders, objectsBy, objectsOf, subsets } from './support.ts';

const OVERLAYS = kustomizationsOf('overlays');
const COMPONENTS = kustomizationsOf('components');

/** What people put together: an overlay with what it does not hold yet, the base with anything. */
const COMBINATIONS: readonly (readonly [path: string, components: readonly string[]])[] = [
  ...subsets(COMPONENTS).map((components) => ['base', components] as const),
  ...OVERLAYS.map((overlay) => [overlay, []] as const),
  ['overlays/v1-compatible', COMPONENTS],
  ['overlays/gke-style', COMPONENTS],
  ['overlays/aks-style', COMPONENTS],
  ['overlays/canary', COMPONENTS],
];

describe('the manifests of examples/kubernetes', () => {
  it('are those that are asked for', () => {
    assert.deepEqual(OVERLAYS.map((path) => path.replace('overlays/', '')).toSorted(), [
      'aks-style',
      'canary',
      'dual-stack',
      'gke-style',
      'merger-sidecar',
      'nftables',
      'strict',
      'v1-compatible',
    ]);
  });

  for (const [path, components] of COMBINATIONS) {
    const name = [path, ...components.map((component) => component.replace('components/', ''))].join(
      ' with ',
    );
    it(`${name}: nothing is wrong`, async () => {
      const problems = audit(await objectsOf(path, components));
      // The component cannot know the IPv6 ranges of the cluster: the agent tells who puts it on a config without any.
      const isTold = components.includes('components/dual-stack');
      assert.equal(problems.length, isTold ? 1 : 0, problems.join('\n'));
      for (const problem of problems) assert.match(problem, /no IPv6 range but link-local is inside/);
    });
  }

  for (const path of ['base', 'admission', ...OVERLAYS]) {
    it(`${path}: builds the same with ${builders.map(({ name }) => name).join(' and ')}`, async () => {
      const [first, ...others] = await Promise.all(builders.map((builder) => objectsBy(builder, path)));
      for (const other of others) assert.deepEqual(other, first);
    });
  }

  it('say the same to readers of YAML 1.1 and of YAML 1.2', () => {
    for (const file of globSync('**/*.yaml', { cwd: KUBERNETES })) {
      const { yaml11, yaml12 } = documentsOf(readFileSync(join(KUBERNETES, file), 'utf8'));
      assert.deepEqual(yaml11, yaml12, file);
    }
  });

  it('take the image from one place, of the version of the package', () => {
    const places = globSync('**/*.yaml', { cwd: KUBERNETES }).filter((file) =>
      /^\s*newName:/m.test(readFileSync(join(KUBERNETES, file), 'utf8')),
    );
    assert.deepEqual(places, ['base/kustomization.yaml']);
    const { images } = load(readFileSync(join(KUBERNETES, 'base/kustomization.yaml'), 'utf8')) as {
      images: readonly { newTag: string }[];
    };
    assert.deepEqual(
      images.map(({ newTag }) => newTag),
      [`v${packageJson.version}`],
    );
  });
});

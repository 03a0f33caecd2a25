import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, it } from 'node:test';
import { load } from 'js-yaml';
import packageJson from '../../package.json' with { type: 'json' };
import { audit } from './audit.ts';
import { containerIn, ofKind } from './documents.ts';
import { documentsOf, KUBERNETES, kustomizationsOf } from './kustomize.ts';
import { builders, objectsBy, objectsOf } from './support.ts';

const OVERLAYS = kustomizationsOf('overlays');
/** That of a canary is not put on production: canary.test.ts. */
const COMPONENTS = kustomizationsOf('components').filter((path) => !path.endsWith('canary'));
/** What does not combine, and what kustomize then says. */
const REFUSED: readonly (readonly [overlay: string, component: string, said: RegExp])[] = [
  ...['aks-style', 'gke-style', 'v1-compatible'].map(
    (overlay) => [overlay, 'hardened', /components\/hardened': test.*items\/0\/path/] as const,
  ),
  ['v1-compatible', 'node-readiness', /components\/node-readiness': test.*nodeSelector/],
];

/** What people put together: the base with anything, an overlay with all that combines with it. */
const COMBINATIONS: readonly (readonly [path: string, components: readonly string[]])[] = [
  ...[[], ...COMPONENTS.map((component) => [component]), COMPONENTS].map(
    (components) => ['base', components] as const,
  ),
  ...OVERLAYS.map((overlay) => [overlay, []] as const),
  ...OVERLAYS.map((overlay) => [overlay, combining(overlay)] as const),
];

/** The components that add something to an overlay. */
function combining(overlay: string): readonly string[] {
  const refused = REFUSED.flatMap(([name, component]) => (overlay.endsWith(name) ? [component] : []));
  const left = [...refused, basename(overlay)];
  return COMPONENTS.filter((component) => !left.includes(basename(component)));
}

describe('the manifests of examples/kubernetes', () => {
  for (const [path, components] of COMBINATIONS) {
    const names = components.map((component) => component.replace('components/', ''));
    it(`${[path, ...names].join(' with ')}: nothing is wrong`, async () =>
      assert.deepEqual(await audit(await objectsOf(path, components)), []));
  }

  for (const [overlay, component, said] of REFUSED)
    it(`overlays/${overlay} with ${component}: kustomize refuses it and names the component`, async () => {
      await assert.rejects(objectsOf(`overlays/${overlay}`, [`components/${component}`]), said);
    });

  it('have no ConfigMap that a controller of the cloud keeps', async () => {
    for (const path of ['base', ...OVERLAYS]) {
      const names = ofKind('ConfigMap', await objectsOf(path)).map(({ metadata }) => metadata.name);
      const ofClouds = ['ip-masq-cloud', 'azure-ip-masq-agent-config-reconciled'];
      assert.deepEqual(
        names.filter((name) => ofClouds.includes(name)),
        [],
        path,
      );
    }
  });

  it('have a dashboard that kubectl can apply, which keeps a copy in an annotation of at most 256 KiB', async () => {
    const dashboard = ofKind('ConfigMap', await objectsOf('base', ['components/dashboard'])).find(
      ({ metadata }) => metadata.labels?.['grafana_dashboard'] === '1',
    );
    const file = join(KUBERNETES, '../grafana/ip-masq-agent.json');
    assert.equal(dashboard?.data?.['grafana-ip-masq-agent.json'], readFileSync(file, 'utf8'));
    assert.ok(Buffer.byteLength(JSON.stringify(dashboard)) < 256 * 1024);
  });

  it('hardened: no image until somebody sets a digest', async () => {
    const { image, args } = containerIn(await objectsOf('base', ['components/hardened']));
    assert.equal(image, `registry.example.com/ip-masq-agent@sha256:${'0'.repeat(64)}`);
    assert.deepEqual(args?.slice(3), ['--strict', '--require-file=ip-masq-operator']);
  });

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
    const tags = images.map(({ newTag }) => newTag);
    assert.deepEqual(tags, [`v${packageJson.version}`]);
  });
});

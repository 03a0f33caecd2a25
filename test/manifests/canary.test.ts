import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { load, loadAll } from 'js-yaml';
import { temporaryDirectory } from '../lab/volume.ts';
import { audit } from './audit.ts';
import { containerIn, type KubernetesObject, ofKind, theDaemonSet } from './documents.ts';
import { type Builder, KUBERNETES, kustomizationsOf } from './kustomize.ts';
import { builders } from './support.ts';

const PAGE = new URL('../../docs/install.md', import.meta.url);
const NAMESPACE = 'node-network';
const SELECTOR = { 'app.kubernetes.io/name': 'ip-masq-agent-canary' };
const COMPONENTS = [
  ...['dashboard', 'dual-stack', 'nftables', 'node-readiness', 'podmonitor', 'prometheus-rules'],
];
const PRODUCTIONS: readonly (readonly [overlay: string, components: readonly string[]])[] = [
  ...['base', ...kustomizationsOf('overlays')].map((overlay) => [overlay, []] as const),
  ['base', COMPONENTS],
];

describe('the canary of the documentation', () => {
  const { images, patches, ...unedited } = documented();

  for (const [overlay, components] of PRODUCTIONS)
    for (const builder of builders)
      it(`${[overlay, ...components].join(' with ')}: it starts from it and shares no object, with ${builder.name}`, async () => {
        const { production, canary } = await built(builder, overlay, components, unedited);
        const problems = audit([...canary, ...ofKind('PodMonitor', production)]);
        const others = problems.filter((problem) => !problem.endsWith('not in kube-system'));
        assert.deepEqual(others, []);
        for (const { kind, metadata } of canary) {
          assert.match(`${kind} ${metadata.name}`, /^(?:ConfigMap|DaemonSet|ServiceAccount) \S+-canary$/);
          assert.equal(metadata.namespace, NAMESPACE);
        }
        const daemonSet = theDaemonSet(canary);
        assert.deepEqual(daemonSet.spec.selector.matchLabels, SELECTOR);
        assert.deepEqual(daemonSet.spec.template.metadata.labels, SELECTOR);
        assert.deepEqual(asProduction(daemonSet), asProduction(theDaemonSet(production)));
        const configFiles = ofKind('ConfigMap', production).filter(
          ({ metadata }) => metadata.labels?.['grafana_dashboard'] === undefined,
        );
        assert.deepEqual(ofKind('ConfigMap', canary).map(asProduction), configFiles.map(asProduction));
      });

  for (const builder of builders)
    it(`tries another image and another config file, with ${builder.name}`, async () => {
      assert.ok(Array.isArray(images) && Array.isArray(patches));
      const edited = { ...unedited, images, patches };
      const { production, canary } = await built(builder, 'base', [], edited);
      const [before, after] = [production, canary].map((objects) => ({
        image: containerIn(objects).image,
        configFile: ofKind('ConfigMap', objects)[0]?.data?.['ip-masq-operator'],
      }));
      assert.match(after?.image ?? '', /:v0\.2\.0$/);
      assert.notEqual(after?.image, before?.image);
      assert.match(after?.configFile ?? '', /100\.64\.0\.0\/10/);
      assert.notEqual(after?.configFile, before?.configFile);
    });
});

/** The object without what tells a canary from production. */
function asProduction(object: KubernetesObject): unknown {
  const text = JSON.stringify(object, (key, value: unknown) =>
    ['selector', 'k8s-app'].includes(key) ? undefined : value,
  );
  return JSON.parse(text.replaceAll('-canary"', '"').replace('"operator":"In"', '"operator":"NotIn"'));
}

/** The kustomization `my-canary` of the page. */
function documented(): Readonly<Record<string, unknown>> {
  const [, text = ''] =
    /^# my-canary\/kustomization\.yaml\n(.*?)^```$/ms.exec(readFileSync(PAGE, 'utf8')) ?? [];
  return load(text) as Readonly<Record<string, unknown>>;
}

interface Built {
  readonly production: readonly KubernetesObject[];
  readonly canary: readonly KubernetesObject[];
}

async function built(
  { build }: Builder,
  overlay: string,
  components: readonly string[],
  kustomization: object,
): Promise<Built> {
  await using temporary = await temporaryDirectory();
  const dir = await realpath(temporary.path);
  const shipped = relative(join(dir, 'my-cluster'), await realpath(KUBERNETES));
  const production = {
    namespace: NAMESPACE,
    resources: [join(shipped, overlay)],
    components: components.map((component) => join(shipped, 'components', component)),
    // As the page has it.
    images: [
      {
        name: 'registry.example.com/ip-masq-agent',
        newName: 'registry.internal/networking/ip-masq-agent',
        newTag: 'v0.1.0',
      },
    ],
  };
  const canary = JSON.stringify(kustomization).replace(
    /https:[^"]*\/examples\/kubernetes([^"?]*)[^"]*/,
    `${shipped}$1`,
  );
  const files = { 'my-cluster': JSON.stringify(production), 'my-canary': canary };
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(dir, name));
    await writeFile(join(dir, name, 'kustomization.yaml'), text);
  }
  const objects = async (name: string) =>
    loadAll(await build(join(dir, name))) as readonly KubernetesObject[];
  return { production: await objects('my-cluster'), canary: await objects('my-canary') };
}

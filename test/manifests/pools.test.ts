import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { loadAll } from 'js-yaml';
import { temporaryDirectory } from '../lab/volume.ts';
import { type KubernetesObject, ofKind, theDaemonSet } from './documents.ts';
import { type Builder, KUBERNETES } from './kustomize.ts';
import { builders } from './support.ts';

describe('a pool of nodes, as the README has it', () => {
  for (const builder of builders)
    it(`has a DaemonSet of its own, on its own nodes, with its own source: ${builder.name}`, async () => {
      const objects = await objectsFrom('my-edge', builder, 'components: [../components/podmonitor]\n');
      const { metadata, spec } = theDaemonSet(objects);
      assert.equal(metadata.name, 'ip-masq-agent-edge');
      assert.equal(spec.selector.matchLabels['app.kubernetes.io/instance'], 'edge');
      assert.equal(spec.template.spec.nodeSelector?.['pool'], 'edge');
      const [source] = ofKind('ConfigMap', objects);
      assert.equal(source?.metadata.name, 'ip-masq-operator-edge');
      assert.match(source.data?.['ip-masq-operator'] ?? '', /192\.0\.2\.0/);
      assert.match(JSON.stringify(spec.template.spec.volumes), /"ip-masq-operator-edge"/);
      const [monitor] = ofKind('PodMonitor', objects);
      assert.deepEqual(monitor?.spec.selector.matchLabels, { 'app.kubernetes.io/instance': 'edge' });
      assert.deepEqual(ofKind('PodMonitor', await objectsFrom('my-edge', builder)), []);
    });
});

describe('the components for the whole cluster beside pools, as the README has them', () => {
  for (const builder of builders)
    it(`keep the names that alerts, policy and commands know: ${builder.name}`, async () => {
      const objects = await objectsFrom('my-components', builder);
      const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      assert.deepEqual(names.toSorted(), [
        'ClusterRole ip-masq-agent-node-readiness',
        'ClusterRoleBinding ip-masq-agent-node-readiness',
        'ConfigMap ip-masq-agent-dashboard',
        'DaemonSet ip-masq-agent-node-readiness',
        'NodeReadinessRule ip-masq-agent',
        'PrometheusRule ip-masq-agent',
        'ServiceAccount ip-masq-agent-node-readiness',
        'ValidatingAdmissionPolicy ip-masq-agent-node-readiness',
        'ValidatingAdmissionPolicyBinding ip-masq-agent-node-readiness',
      ]);
    });
});

/**
 * Builds a kustomization of the page beside the examples.
 *
 * @param more lines to append to it; paths as beside `base`
 */
async function objectsFrom(name: string, builder: Builder, more = ''): Promise<readonly KubernetesObject[]> {
  await using temporary = await temporaryDirectory();
  const mine = join(await realpath(temporary.path), name);
  await mkdir(mine);
  const page = readFileSync(join(KUBERNETES, 'README.md'), 'utf8');
  const [found = assert.fail(name)] =
    new RegExp(`^( *)# ${name}/kustomization\\.yaml\n.*?(?=^\\1\`\`\`$)`, 'ms').exec(page) ?? [];
  const examples = relative(mine, await realpath(KUBERNETES));
  const text = `${found}${more}`.replaceAll(
    /\.\.\/(?:examples\/kubernetes\/)?(?=base|components)/g,
    `${examples}/`,
  );
  await writeFile(join(mine, 'kustomization.yaml'), text);
  return loadAll(await builder.build(mine)) as readonly KubernetesObject[];
}

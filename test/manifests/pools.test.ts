import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type KubernetesObject, ofKind, theDaemonSet } from './documents.ts';
import { type Builder, KUBERNETES } from './kustomize.ts';
import { builders, objectsFrom } from './support.ts';

describe('a pool of nodes, as the documentation has it', () => {
  for (const builder of builders)
    it(`has a DaemonSet of its own, on its own nodes, with its own config file: ${builder.name}`, async () => {
      const objects = await poolObjects('my-edge', builder, 'components: [../components/podmonitor]\n');
      const { metadata, spec } = theDaemonSet(objects);
      assert.equal(metadata.name, 'ip-masq-agent-edge');
      assert.equal(spec.selector.matchLabels['app.kubernetes.io/instance'], 'edge');
      assert.equal(spec.template.spec.nodeSelector?.['pool'], 'edge');
      const [configFile] = ofKind('ConfigMap', objects);
      assert.equal(configFile?.metadata.name, 'ip-masq-operator-edge');
      assert.match(configFile.data?.['ip-masq-operator'] ?? '', /192\.0\.2\.0/);
      assert.match(JSON.stringify(spec.template.spec.volumes), /"ip-masq-operator-edge"/);
      const [monitor] = ofKind('PodMonitor', objects);
      assert.deepEqual(monitor?.spec.selector.matchLabels, { 'app.kubernetes.io/instance': 'edge' });
      assert.deepEqual(ofKind('PodMonitor', await poolObjects('my-edge', builder)), []);
    });
});

describe('the components for the whole cluster beside pools, as the documentation has them', () => {
  for (const builder of builders)
    it(`keep the names that alerts, policy and commands know: ${builder.name}`, async () => {
      const objects = await poolObjects('my-components', builder);
      const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      const ofReadiness = [
        ...['ClusterRole', 'ClusterRoleBinding', 'DaemonSet', 'ServiceAccount', 'ValidatingAdmissionPolicy'],
        'ValidatingAdmissionPolicyBinding',
      ].map((kind) => `${kind} ip-masq-agent-node-readiness`);
      const others = ['NodeReadinessRule ip-masq-agent', 'PrometheusRule ip-masq-agent'];
      const all = [...ofReadiness, ...others, 'ConfigMap ip-masq-agent-dashboard'];
      assert.deepEqual(names.toSorted(), all.toSorted());
    });
});

/**
 * Builds a kustomization of the page beside the examples.
 *
 * @param more lines to append to it; paths as beside `base`
 */
function poolObjects(name: string, builder: Builder, more = ''): Promise<readonly KubernetesObject[]> {
  const page = readFileSync(join(KUBERNETES, '../../docs/install.md'), 'utf8');
  const [found = assert.fail(name)] =
    new RegExp(`^( *)# ${name}/kustomization\\.yaml\n.*?(?=^\\1\`\`\`$)`, 'ms').exec(page) ?? [];
  const ways = /\.\.\/(?:examples\/kubernetes\/)?(?=base|components)/g;
  return objectsFrom(builder, (examples) => `${found}${more}`.replaceAll(ways, `${examples}/`));
}

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { audit } from './audit.ts';
import { type DaemonSet, type KubernetesObject, ofKind, theDaemonSet } from './documents.ts';
import type { Builder } from './kustomize.ts';
import { builders, objectsFrom } from './support.ts';

const PAGE = new URL('../../docs/migration.md', import.meta.url);
/** v1's own manifest and v2's example have it, and the selector of a DaemonSet cannot change. */
const SELECTOR = { 'k8s-app': 'ip-masq-agent' };

describe('the kustomizations of the migration page', () => {
  const [v1 = '', flags = '', v2 = ''] = blocks();

  for (const builder of builders) {
    it(`update v1's DaemonSet, with its flags and ConfigMap, with ${builder.name}`, async () => {
      const objects = await built(builder, v1 + flags);
      const { spec } = wanted(objects, 'kube-system');
      assert.deepEqual(spec.template.spec.containers[0]?.args?.slice(-2), [
        '--masq-chain=IP-MASQ',
        '--nomasq-all-reserved-ranges',
      ]);
      assert.deepEqual(mounted(spec), { 'ip-masq-agent': 'ip-masq-agent' });
      const text = 'nonMasqueradeCIDRs: [10.0.0.0/8]\nresyncInterval: 60s\n';
      assert.deepEqual(audit([...objects, sample('ip-masq-agent', 'config', text)]), []);
    });

    it(`update the DaemonSet of v2's example, with its ConfigMaps, with ${builder.name}`, async () => {
      const objects = await built(builder, v2);
      const { spec } = wanted(objects, 'default');
      assert.deepEqual(mounted(spec), {
        'ip-masq-agent': 'ip-masq-agent-config',
        'ip-masq-agent-reconciled': 'ip-masq-agent-config-reconciled',
      });
      const samples = [
        sample('ip-masq-agent-config', 'ip-masq-agent', 'nonMasqueradeCIDRs: [10.240.0.0/16]\n'),
        sample(
          'ip-masq-agent-config-reconciled',
          'ip-masq-agent-reconciled',
          'nonMasqueradeCIDRs: [1.0.0.0/8]\n',
        ),
      ];
      const problems = audit([...objects, ...samples]);
      const others = problems.filter((problem) => !problem.endsWith('not in kube-system'));
      assert.deepEqual(others, []);
    });
  }
});

/** The DaemonSet, if it can take the place of an older agent's, on all nodes, and no ConfigMap is brought along. */
function wanted(objects: readonly KubernetesObject[], namespace: string): DaemonSet {
  const daemonSet = theDaemonSet(objects);
  assert.equal(daemonSet.metadata.name, 'ip-masq-agent');
  assert.equal(daemonSet.metadata.namespace, namespace);
  assert.deepEqual(daemonSet.spec.selector.matchLabels, SELECTOR);
  assert.deepEqual(daemonSet.spec.template.spec.nodeSelector, { 'kubernetes.io/os': 'linux' });
  assert.deepEqual(ofKind('ConfigMap', objects), []);
  return daemonSet;
}

/** A ConfigMap that the cluster has. */
function sample(name: string, key: string, text: string): KubernetesObject {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: 'kube-system' },
    data: { [key]: text },
  } as KubernetesObject;
}

/** The ConfigMap of each file. */
function mounted({ template }: DaemonSet['spec']): Readonly<Record<string, string | undefined>> {
  const sources = template.spec.volumes.flatMap(({ projected }) => projected?.sources ?? []);
  return Object.fromEntries(
    sources.flatMap(({ configMap }) => (configMap?.items ?? []).map(({ path }) => [path, configMap?.name])),
  );
}

function built(builder: Builder, kustomization: string): Promise<readonly KubernetesObject[]> {
  return objectsFrom(builder, (examples) => kustomization.replace('../examples/kubernetes', examples));
}

/** The blocks of YAML of the page, without the indentation of the list in which they are. */
function blocks(): readonly string[] {
  const found = readFileSync(PAGE, 'utf8').matchAll(/^( *)```yaml\n(.*?)^\1```$/gms);
  return [...found].map(([, indent = '', text = '']) => text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
}

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { loadAll } from 'js-yaml';
import { temporaryDirectory } from '../lab/volume.ts';
import { type KubernetesObject, ofKind, theDaemonSet } from './documents.ts';
import { KUBERNETES } from './kustomize.ts';
import { builders } from './support.ts';

describe('a pool of nodes, as the README has it', () => {
  for (const builder of builders)
    it(`has a DaemonSet of its own, on its own nodes, with its own source: ${builder.name}`, async () => {
      await using temporary = await temporaryDirectory();
      const mine = join(await realpath(temporary.path), 'my-edge');
      await mkdir(mine);
      const page = readFileSync(join(KUBERNETES, 'README.md'), 'utf8');
      const [text = ''] = /^# my-edge\/kustomization\.yaml\n.*?(?=^```$)/ms.exec(page) ?? [];
      const base = relative(mine, await realpath(join(KUBERNETES, 'base')));
      await writeFile(join(mine, 'kustomization.yaml'), text.replace('../examples/kubernetes/base', base));

      const objects = loadAll(await builder.build(mine)) as readonly KubernetesObject[];
      const { metadata, spec } = theDaemonSet(objects);
      assert.equal(metadata.name, 'ip-masq-agent-edge');
      assert.equal(spec.selector.matchLabels['app.kubernetes.io/instance'], 'edge');
      assert.equal(spec.template.spec.nodeSelector?.['pool'], 'edge');
      const [source] = ofKind('ConfigMap', objects);
      assert.equal(source?.metadata.name, 'ip-masq-operator-edge');
      assert.match(source.data?.['ip-masq-operator'] ?? '', /192\.0\.2\.0/);
      assert.match(JSON.stringify(spec.template.spec.volumes), /"ip-masq-operator-edge"/);
    });
});

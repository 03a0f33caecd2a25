import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { dump } from 'js-yaml';
import { kustomizationsOf } from './kustomize.ts';
import { objectsOf } from './support.ts';

/** With UPDATE_GOLDEN=1 the files are written anew instead: review them in the diff, above all what a pod may do. */
const UPDATE = process.env['UPDATE_GOLDEN'] === '1';

describe('what kubectl applies', () => {
  for (const [path, components] of [
    ['base', []],
    ...kustomizationsOf('overlays').map((path) => [path, []] as const),
    ['node-readiness', ['components/node-readiness']],
  ] as const)
    it(`is as it was reviewed: ${basename(path)}`, async () => {
      const objects = await objectsOf(components.length === 0 ? path : 'base', components);
      const reviewed = objects.filter(({ kind }) => !/^(?:ConfigMap|ValidatingAdmission)/.test(kind));
      const text = reviewed.map((object) => dump(object, { noRefs: true })).join('---\n');
      const file = fileURLToPath(new URL(`../golden/manifests/${basename(path)}.yaml`, import.meta.url));
      if (UPDATE) writeFileSync(file, text);
      assert.equal(readFileSync(file, 'utf8'), text);
    });
});

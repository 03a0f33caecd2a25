import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { bundle } from '../../../build/bundle.ts';
import { bundledPackages } from '../../../build/licences.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

for (const [index, program] of (['ip-masq-agent', 'ip-masq-ranges'] as const).entries())
  it(`the bundle of ${program} holds the packages that the reference names`, async () => {
    await using directory = await temporaryDirectory();
    const file = `${directory.path}/${program}`;
    const other = program === 'ip-masq-ranges' && { program };
    const metafile = await bundle({ ...other, version: 'v1', file, interpreter: '/usr/bin/node' });
    const names = bundledPackages(metafile).map((path) => path.replace(/^.*node_modules\//, ''));
    const text = readFileSync(new URL('../../../docs/reference.md', import.meta.url), 'utf8');
    const named = [...text.matchAll(/bundle of (\d+) packages \(([^)]*)\)/g)];
    const [, count = '', list = ''] = named[index] ?? [];
    assert.deepEqual(list.split(', '), names);
    assert.equal(Number(count), names.length);
  });

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { bundle } from '../../../build/bundle.ts';
import { bundledPackages } from '../../../build/licences.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

it('the bundle holds the packages that the reference names', async () => {
  await using directory = await temporaryDirectory();
  const file = `${directory.path}/ip-masq-agent`;
  const metafile = await bundle({ version: 'v1', file, interpreter: '/usr/bin/node' });
  const names = bundledPackages(metafile).map((path) => path.replace(/^.*node_modules\//, ''));
  const text = readFileSync(new URL('../../../docs/reference.md', import.meta.url), 'utf8');
  const [, count = '', list = ''] = /bundle of (\d+) packages \(([^)]*)\)/.exec(text) ?? [];
  assert.deepEqual(list.split(', '), names);
  assert.equal(Number(count), names.length);
});

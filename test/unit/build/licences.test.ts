import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { bundledPackages, licencesText } from '../../../build/licences.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

it('the packages of a bundle are those with a byte in it, also those in another package or in a scope', () => {
  const input = (bytesInOutput: number) => ({ bytesInOutput });
  const inputs = {
    'lib/own.ts': input(9),
    'node_modules/b/x.js': input(1),
    'node_modules/b/y.js': input(2),
    'node_modules/@scope/a/index.js': input(1),
    'node_modules/b/node_modules/c/index.js': input(1),
    'node_modules/shaken-off/index.js': input(0),
  };
  const output = { bytes: 0, exports: [], imports: [], inputs };
  assert.deepEqual(bundledPackages({ outputs: { bin: output } }), [
    'node_modules/@scope/a',
    'node_modules/b',
    'node_modules/b/node_modules/c',
  ]);
});

describe('the licences', () => {
  it('have the texts of all packages under their names', async () => {
    const text = await licences({ license: 'MIT' }, { 'LICENSE.md': 'the text\n', 'license.js': 'code' });
    assert.match(text, /\n@scope\/a 1\.0\.0\n=+\n\nthe text\n$/);
  });

  it('have a line of package.json if a package has no licence text', async () => {
    assert.match(await licences({ license: 'MIT' }, {}), /package\.json says: MIT\.\n$/);
  });

  it('are refused if nothing tells the licence of a package', async () => {
    await assert.rejects(licences({}, {}), /nothing tells the licence of @scope\/a/);
  });
});

/** The licences of a package `@scope/a` 1.0.0 with these files. */
async function licences(manifest: object, files: Readonly<Record<string, string>>): Promise<string> {
  await using root = await temporaryDirectory();
  const dir = join(root.path, '@scope/a');
  await mkdir(dir, { recursive: true });
  const packageJson = JSON.stringify({ name: '@scope/a', version: '1.0.0', ...manifest });
  for (const [name, content] of Object.entries({ ...files, 'package.json': packageJson }))
    await writeFile(join(dir, name), content);
  return licencesText([dir]);
}

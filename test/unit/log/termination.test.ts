import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { writeTerminationMessage } from '../../../lib/log/termination.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../lab/volume.ts';

describe('the termination message', () => {
  let dir: TemporaryDirectory;
  let path: string;

  beforeEach(async () => {
    dir = await temporaryDirectory();
    path = join(dir.path, 'log');
  });
  afterEach(() => dir[Symbol.asyncDispose]());

  it('replaces what was there', async () => {
    await writeFile(path, 'something longer');
    await writeTerminationMessage(path, ['short']);
    assert.equal(await readFile(path, 'utf8'), 'short\n');
  });

  it('is not written where there is no file', async () => {
    await writeTerminationMessage(path, ['short']);
    assert.deepEqual(await readdir(dir.path), []);
  });

  it('fits what kubelet keeps, says that there is more, and cuts no character', async () => {
    await writeFile(path, '');
    await writeTerminationMessage(
      path,
      Array.from({ length: 500 }, (_, index) => `problem ${index} äöü`),
    );
    const text = await readFile(path, 'utf8');
    assert.ok(Buffer.byteLength(text) <= 4096);
    assert.doesNotMatch(text, /\uFFFD/);
    assert.match(text, /problem \d+.*…\nthere is more in the log\n$/);
  });

  it('cuts a single endless line', async () => {
    await writeFile(path, '');
    await writeTerminationMessage(path, ['ä'.repeat(5000), 'more']);
    const bytes = await readFile(path);
    assert.ok(bytes.length <= 4096 && bytes.length > 4000);
    assert.doesNotMatch(bytes.toString('utf8'), /\uFFFD/);
  });

  it('that cannot be written is an error', async () => {
    await assert.rejects(writeTerminationMessage(dir.path, ['short']), { code: 'EISDIR' });
  });
});

import assert from 'node:assert/strict';
import { cp, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';

const ROOT = join(import.meta.dirname, '../..');
const ENV = { PATH: process.env['PATH'] ?? '' };
const NAME = 'ip-masq-agent';

it('the owner of the repository is set everywhere by one command, and what is generated has it', async () => {
  await using directory = await temporaryDirectory();
  const { path } = directory;
  const must = (file: string, ...args: readonly string[]) => succeed(run({ file, args }, ENV));
  const git = (...args: readonly string[]) => must('git', '-C', path, ...args);
  const has = async (text: string) =>
    (await run({ file: 'git', args: ['-C', path, 'grep', '--quiet', text] }, ENV)).code === 0;
  await copyTree(path);
  await git('init', '--quiet');
  await git('add', '.');

  assert.ok(await has(`OWNER/${NAME}`));
  await must(process.execPath, join(path, 'build/owner.ts'), 'Example-Org');
  assert.ok(!(await has(`OWNER/${NAME}`)));
  assert.ok(await has(`github.com/Example-Org/${NAME}`));
  assert.ok(!(await has(`ghcr.io/Example-Org/${NAME}`)), 'a registry has no capital letters');
  await git('add', '.');
  await must(process.execPath, join(path, 'build/compile-schema.ts'));
  await must(process.execPath, join(path, 'build/docs.ts'));
  assert.equal(await git('diff', '--name-only'), '');
});

/** Copies the files that are, or are to be, in the repository. */
async function copyTree(to: string): Promise<void> {
  const list = ['-C', ROOT, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const files = (await succeed(run({ file: 'git', args: list }, ENV))).split('\0');
  for (const file of files.filter((name) => name !== ''))
    await cp(join(ROOT, file), join(to, file), { verbatimSymlinks: true });
  await symlink(join(ROOT, 'node_modules'), join(to, 'node_modules'));
}

import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { FAULTS } from '../faults/table.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

// To try them takes minutes, and is seldom done; the code moves on meanwhile.
it('each fault still finds its code, and each of its tests a file', () => {
  const bare = (text: string) => text.replace(/\s+/g, '');
  const code = globSync('{cmd,lib}/**/*.ts', { cwd: ROOT }).map((file) =>
    bare(readFileSync(ROOT + file, 'utf8')),
  );
  const tests = globSync('test/**/*.test.ts', { cwd: ROOT });
  const found = (quoted: string) => code.reduce((sum, text) => sum + text.split(bare(quoted)).length - 1, 0);
  const lost = FAULTS.filter(({ edits }) => edits.reduce((sum, [quoted]) => sum + found(quoted), 0) !== 1);
  const broken = lost.map(({ name }) => name);
  assert.deepEqual(broken, []);
  const names = FAULTS.flatMap(({ noticedBy }) => noticedBy.map(([file]) => file));
  const missing = names.filter((name) => tests.filter((path) => path.endsWith(`/${name}`)).length !== 1);
  assert.deepEqual(missing, []);
});

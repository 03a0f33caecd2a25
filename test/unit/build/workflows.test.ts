import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';

const ROOT = join(import.meta.dirname, '../../..');

it('workflows name actions by a commit, with its version beside', () => {
  const files = globSync('.github/{workflows/*,actions/*/*}.yml', { cwd: ROOT });
  const used = files.flatMap(
    (file) => readFileSync(join(ROOT, file), 'utf8').match(/^ +(?:- )?uses: .*/gm) ?? [],
  );
  assert.ok(used.length > 0);
  for (const line of used) assert.match(line, /uses: [\w./-]+@[\da-f]{40} # v\d+\.\d+\.\d+$/);
});

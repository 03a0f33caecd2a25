import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

describe('the planted faults', () => {
  for (const path of globSync(join(ROOT, 'test/faults/*.patch')).sort())
    it(`apply to the sources of today: ${basename(path)}`, () => {
      execFileSync('git', ['apply', '-C1', '--check', path], { cwd: ROOT, stdio: 'pipe' });
      const files = readFileSync(path, 'utf8').match(/\btest\/\S+\.test\.ts$/gm) ?? [];
      assert.ok(files.length > 0);
      for (const file of files) assert.ok(existsSync(join(ROOT, file)), file);
    });
});

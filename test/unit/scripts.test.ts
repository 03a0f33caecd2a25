import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** No package of npm has these programs in it. Runners of GitHub have the first. */
const CHECKERS = {
  shellcheck: ['.ci/run', '{build,test}/**/*.sh'],
  actionlint: ['.github/workflows/*.yml'],
} as const;

describe('the scripts', () => {
  for (const [program, patterns] of Object.entries(CHECKERS))
    it(`are accepted by ${program}`, { skip: skipped(program) }, () => {
      const files = globSync(patterns, { cwd: ROOT });
      assert.ok(files.length > 0);
      const { status, stdout } = spawnSync(program, files, { cwd: ROOT, encoding: 'utf8' });
      assert.equal(status, 0, stdout);
    });
});

function skipped(program: string): string | false {
  return spawnSync(program, ['--version']).error !== undefined && `skipped: ${program} is not installed`;
}

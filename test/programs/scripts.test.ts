import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Debian has no actionlint, and npm none of today: it is used if it is there. */
const NO_ACTIONLINT = spawnSync('actionlint', ['--version']).error && 'actionlint is not installed';

describe('the scripts', () => {
  it('are accepted by shellcheck', () => accepted('shellcheck', ['.ci/run', '{build,test}/**/*.sh']));
  it('are accepted by actionlint', { skip: NO_ACTIONLINT ?? false }, () =>
    accepted('actionlint', ['.github/workflows/*.yml']),
  );
});

function accepted(program: string, patterns: readonly string[]): void {
  const files = globSync(patterns, { cwd: ROOT });
  assert.ok(files.length > 0);
  const { status, stdout } = spawnSync(program, files, { cwd: ROOT, encoding: 'utf8' });
  assert.equal(status, 0, stdout);
}

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { KIND_MEANING, KIND_SEVERITY, KINDS } from '../../../lib/config/problem-kinds.ts';

describe('the table of kinds', () => {
  for (const kind of KINDS) {
    it(`says in one short sentence what ${kind} means`, () => {
      assert.match(KIND_MEANING[kind], /^[A-Z][^.;:]{10,80}\.$/);
    });
  }

  it('says no two kinds mean the same', () => {
    assert.equal(new Set(Object.values(KIND_MEANING)).size, KINDS.length);
  });

  it('has the severities of the README', () => {
    const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
    const rows = [...readme.matchAll(/^\| `([a-z-]+)` \|.*\| (error|warning|info) \|$/gm)];
    assert.ok(rows.length >= 7);
    const severities: Readonly<Record<string, string>> = KIND_SEVERITY;
    for (const [, kind = '', severity] of rows) assert.equal(severities[kind], severity, kind);
  });
});

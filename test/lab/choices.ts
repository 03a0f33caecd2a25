import assert from 'node:assert/strict';
import type { Flag } from '../../cmd/ip-masq-agent/flag-table.ts';

/** The words that a flag takes, so that a test of all of them has a new one too. */
export function choicesOf({ kind }: Flag<unknown>): readonly string[] {
  return kind.choices ?? assert.fail(`${kind.placeholder} is no choice`);
}

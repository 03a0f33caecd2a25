import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isOlder } from '../../../lib/dataplane/versions.ts';

describe('a version', () => {
  for (const [version, than, older] of [
    ['1.6.1', [1, 6, 2], true],
    ['1.6.2', [1, 6, 2], false],
    ['1.6.10', [1, 6, 2], false],
    ['1.8', [1, 6, 2], false],
    ['1.6', [1, 6, 2], true],
    ['0.9.8', [1, 0, 2], true],
    ['1.1.3', [1, 0, 2], false],
    ['2', [1, 0, 2], false],
  ] as const) {
    it(`${version} is ${older ? '' : 'not '}older than ${than.join('.')}`, () =>
      assert.equal(isOlder(version, than), older));
  }
});

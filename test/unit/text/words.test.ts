import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { countedAddresses } from '../../../lib/text/words.ts';

describe('a number of addresses', () => {
  for (const [count, text] of [
    [0n, '0 addresses'],
    [1n, '1 address'],
    [65_536n, '65,536 addresses'],
    [2n ** 32n, '4,294,967,296 addresses'],
    [2n ** 32n + 1n, 'more than 2^32 addresses'],
    [2n ** 120n, '2^120 addresses'],
    [2n ** 121n - 1n, 'more than 2^120 addresses'],
    [2n ** 128n, '2^128 addresses'],
  ] as const) {
    it(`reads as ${text}`, () => assert.equal(countedAddresses(count), text));
  }
});

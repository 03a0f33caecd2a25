import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { familyOf } from '../../../lib/cidr/address.ts';

describe('an address', () => {
  it('is what Node.js takes for one, without a zone', () => {
    const parts = [...'01f:./% \t]', '10', '256', 'abcd', '::', '1.2.3.4', '.1'];
    const texts = fc.array(fc.constantFrom(...parts), { maxLength: 18 }).map((array) => array.join(''));
    fc.assert(
      fc.property(texts, (text) => {
        const family = { 0: undefined, 4: 'IPv4', 6: text.includes('%') ? undefined : 'IPv6' }[isIP(text)];
        assert.equal(familyOf(text), family);
      }),
      { numRuns: 2_000 },
    );
  });
});

import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { familyOf, normalizeIPv6, parseAddress } from '../../../lib/cidr/address.ts';
import { anyAddress, FAMILIES, ipv6Spelling, naiveText } from './arbitrary.ts';

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

  for (const family of FAMILIES) {
    it(`of ${family} is read back from its text`, () => {
      fc.assert(
        fc.property(anyAddress(family), (value) => {
          assert.deepEqual(parseAddress(naiveText(family, value)), { family, value });
        }),
      );
    });
  }

  it('is the same however IPv6 is spelt, and has one normal text', () => {
    const spelt = anyAddress('IPv6').chain((value) => fc.tuple(fc.constant(value), ipv6Spelling(value)));
    fc.assert(
      fc.property(spelt, ([value, text]) => {
        assert.equal(parseAddress(text)?.value, value);
        assert.equal(normalizeIPv6(text), naiveText('IPv6', value));
      }),
      { numRuns: 500 },
    );
  });
});

describe('the normal text of an IPv6 address', () => {
  // The examples of RFC 5952, section by section.
  for (const [text, normal] of [
    ['2001:0db8::0001', '2001:db8::1'],
    ['2001:db8:0:0:0:0:2:1', '2001:db8::2:1'],
    ['2001:db8::0:1', '2001:db8::1'],
    ['2001:db8::1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['2001:DB8::AAAA', '2001:db8::aaaa'],
    ['::ffff:192.0.2.1', '::ffff:c000:201'],
  ] as const) {
    it(`of ${text} is ${normal}`, () => assert.equal(normalizeIPv6(text), normal));
  }
});

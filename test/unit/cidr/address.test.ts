import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { familyOf, normalizeIPv6, parseAddress } from '../../../lib/cidr/address.ts';
import { anyAddress, FAMILIES, ipv6Spelling, naiveText } from './arbitrary.ts';

describe('an address', () => {
  for (const [text, family, value] of [
    ['0.0.0.0', 'IPv4', 0n],
    ['1.2.3.4', 'IPv4', 0x01020304n],
    ['255.255.255.255', 'IPv4', 0xffffffffn],
    ['::', 'IPv6', 0n],
    ['::1', 'IPv6', 1n],
    ['FE80::A', 'IPv6', 0xfe80n * 2n ** 112n + 10n],
    ['64:ff9b::1.2.3.4', 'IPv6', 0x64n * 2n ** 112n + 0xff9bn * 2n ** 96n + 0x01020304n],
    ['::ffff:1.2.3.4', 'IPv6', 0xffff01020304n],
  ] as const) {
    it(`is ${text}, with its value`, () => assert.deepEqual(parseAddress(text), { family, value }));
  }

  for (const text of [
    ...['', ' ', '1.2.3', '1.2.3.4.5', '1.2.3.256', '010.0.0.1', '0x1.2.3.4', '16909060', '1.2.3.4/32'],
    ...['1.2.3.4 ', ' 1.2.3.4', '1.2.3.4\n', '+1.2.3.4', '１.2.3.4', '١.2.3.4', ':', ':::', '1::2::3'],
    ...['12345::', 'g::', '[::1]', '::1/128', 'fe80::1%eth0', 'fe80::1%', '::010.0.0.1', '::1 ', 'localhost'],
  ]) {
    it(`is not ${JSON.stringify(text)}`, () => {
      assert.equal(parseAddress(text), undefined);
      assert.equal(familyOf(text), undefined);
    });
  }

  it('is what Node.js takes for one, without a zone', () => {
    const parts = [...'01f:./% \t]', '10', '256', 'abcd', '::', '1.2.3.4', '.1'];
    const texts = fc.array(fc.constantFrom(...parts), { maxLength: 18 }).map((array) => array.join(''));
    fc.assert(
      fc.property(texts, (text) => {
        const family = { 0: undefined, 4: 'IPv4', 6: text.includes('%') ? undefined : 'IPv6' }[isIP(text)];
        assert.equal(familyOf(text), family);
      }),
      { numRuns: 5_000 },
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

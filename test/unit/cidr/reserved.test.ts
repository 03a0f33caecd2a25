import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LINK_LOCAL, OTHER_RESERVED_RANGES, PRIVATE_RANGES } from '../../../lib/cidr/reserved.ts';

describe('reserved ranges', () => {
  it('are private by RFC 1918', () => {
    assert.deepEqual(
      PRIVATE_RANGES.map(({ prefix, rfc }) => `${prefix.text} ${rfc}`),
      ['10.0.0.0/8 RFC 1918', '172.16.0.0/12 RFC 1918', '192.168.0.0/16 RFC 1918'],
    );
  });

  it('are, besides, those that the Go agents know, in their order', () => {
    assert.deepEqual(
      OTHER_RESERVED_RANGES.map(({ prefix }) => prefix.text),
      [
        '100.64.0.0/10',
        '192.0.0.0/24',
        '192.0.2.0/24',
        '192.88.99.0/24',
        '198.18.0.0/15',
        '198.51.100.0/24',
        '203.0.113.0/24',
        '240.0.0.0/4',
      ],
    );
  });

  it('name the RFC that each follows', () => {
    for (const { rfc } of [...OTHER_RESERVED_RANGES, ...Object.values(LINK_LOCAL)]) {
      assert.match(rfc, /^RFC \d{4}$/);
    }
  });

  it('are link-local, one of each family', () => {
    assert.equal(LINK_LOCAL.IPv4.prefix.text, '169.254.0.0/16');
    assert.equal(LINK_LOCAL.IPv6.prefix.text, 'fe80::/10');
  });
});

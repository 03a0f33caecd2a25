import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { OTHER_RESERVED_RANGES, PRIVATE_RANGES, UNUSABLE_AS_SOURCE } from '../../../lib/cidr/reserved.ts';

const textOf = ({ prefix, rfc }: (typeof PRIVATE_RANGES)[number]) => `${prefix.text} ${rfc}`;

describe('reserved ranges', () => {
  it('are private by RFC 1918', () => {
    const ranges = ['10.0.0.0/8 RFC 1918', '172.16.0.0/12 RFC 1918', '192.168.0.0/16 RFC 1918'];
    assert.deepEqual(PRIVATE_RANGES.map(textOf), ranges);
  });

  it('are, besides, those that the Go agents know, in their order', () => {
    assert.deepEqual(OTHER_RESERVED_RANGES.map(textOf), [
      ...['100.64.0.0/10 RFC 6598', '192.0.0.0/24 RFC 6890', '192.0.2.0/24 RFC 5737'],
      ...['192.88.99.0/24 RFC 7526', '198.18.0.0/15 RFC 6815', '198.51.100.0/24 RFC 5737'],
      ...['203.0.113.0/24 RFC 5737', '240.0.0.0/4 RFC 5735'],
    ]);
  });

  it('are those with which no packet leaves', () => {
    const textsOf = (family: 'IPv4' | 'IPv6') => UNUSABLE_AS_SOURCE[family].map(({ prefix }) => prefix.text);
    const ipv4 = ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '255.255.255.255/32'];
    assert.deepEqual(textsOf('IPv4'), ipv4);
    assert.deepEqual(textsOf('IPv6'), ['::/96', 'fe80::/10', 'ff00::/8']);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import IPCIDR from 'ip-cidr';
import { formatAddress } from '../../../lib/cidr/address.ts';
import { extent } from '../../../lib/cidr/extent.ts';
import { crowdedPrefix, FAMILIES } from './arbitrary.ts';
import { prefixFrom } from './support.ts';

describe('the extent of a prefix', () => {
  for (const [text, first, last, size] of [
    ['10.244.0.0/16', '10.244.0.0', '10.244.255.255', 65_536n],
    ['10.0.0.1/32', '10.0.0.1', '10.0.0.1', 1n],
    ['0.0.0.0/0', '0.0.0.0', '255.255.255.255', 2n ** 32n],
    ['fd00::/8', 'fd00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 2n ** 120n],
    ['::/0', '::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 2n ** 128n],
  ] as const) {
    it(`of ${text} is ${first} to ${last}`, () => {
      assert.deepEqual(extent(prefixFrom(text)), { first, last, size });
    });
  }

  it('is what ip-cidr finds', () => {
    fc.assert(
      fc.property(fc.oneof(...FAMILIES.map(crowdedPrefix)), (prefix) => {
        const { family } = prefix;
        const cidr = new IPCIDR(prefix.text);
        const [first, last] = cidr.toRange<bigint>({ type: 'bigInteger' });
        assert.deepEqual(extent(prefix), {
          first: formatAddress({ family, value: first }),
          last: formatAddress({ family, value: last }),
          size: cidr.size.valueOf(),
        });
      }),
    );
  });
});

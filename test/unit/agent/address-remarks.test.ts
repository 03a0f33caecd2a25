import assert from 'node:assert/strict';
import { it } from 'node:test';
import { addressRemarks } from '../../../lib/agent/address-remarks.ts';
import { formatRemark } from '../../../lib/config/problem.ts';
import { compilePolicy, type OwnAddress } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';

it('a range is worth a remark if the node has no address in it, or several that are equally good', () => {
  const item = { destination: '0.0.0.0/0', address: '198.51.100.0/24' };
  const config = mergedOf({ a: JSON.stringify({ masqueradeAddresses: [item] }) });
  const own = (octet: number, rank = 0): OwnAddress => ({
    family: 'IPv4',
    value: 0xc6336400n + BigInt(octet),
    rank,
  });
  const said = (...addresses: readonly OwnAddress[]) =>
    addressRemarks([compilePolicy(config, 'IPv4', addresses)])
      .map((remark) => formatRemark(remark))
      .join();
  assert.equal(said(own(7)), '');
  assert.match(said(), /^a:1:25: this node has no address in 198\.51\.100\.0\/24: /);
  assert.match(said(own(8), own(7)), /^a:1:25: .* several .*: 198\.51\.100\.7, 198\.51\.100\.8; /);
  assert.equal(said(own(7, 1), own(8)), '');
});

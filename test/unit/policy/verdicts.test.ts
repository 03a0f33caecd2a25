import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { uniformVerdicts, verdictsOf } from '../../../lib/policy/verdicts.ts';
import { mergedOf } from '../config/support.ts';

for (const family of FAMILIES)
  it(`the verdicts of all addresses of ${family} end at the highest one`, () => {
    const highest = { IPv4: 0xffffffffn, IPv6: (1n << 128n) - 1n }[family];
    const policy = compilePolicy(
      mergedOf({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8, "fd00::/8"]' }),
      family,
    );
    for (const { ranges } of [verdictsOf(policy), uniformVerdicts(family, { verdict: 'masqueraded' })])
      assert.equal(ranges.at(-1)?.last, highest);
  });

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decide } from '../../../lib/policy/decision.ts';
import type { Entry } from '../../../lib/policy/policy.ts';
import { formatOrigin } from '../../../lib/text/origin.ts';
import { addressFrom } from '../cidr/support.ts';
import { mergedOf } from '../config/support.ts';

describe('why an address is masqueraded', () => {
  const texts = {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.1.1.0/24, 0.0.0.0/0, "fd00::/8"]\nmasqueradeCIDRs: [10.1.0.0/16]',
    b: 'masqueradeCIDRs: [169.254.0.0/16, 10.1.1.1/32]',
  };

  for (const [address, verdict, decidedBy, overridden] of [
    [
      '10.1.1.1',
      'masqueraded',
      '10.1.1.1/32 b:1:35',
      ['10.1.1.0/24 a:1:34', '10.1.0.0/16 a:2:19', '10.0.0.0/8 a:1:22', '0.0.0.0/0 a:1:47'],
    ],
    [
      '10.1.1.2',
      'not_masqueraded',
      '10.1.1.0/24 a:1:34',
      ['10.1.0.0/16 a:2:19', '10.0.0.0/8 a:1:22', '0.0.0.0/0 a:1:47'],
    ],
    ['192.0.2.1', 'not_masqueraded', '0.0.0.0/0 a:1:47', []],
    [
      '169.254.1.1',
      'not_masqueraded',
      '169.254.0.0/16 built in (RFC 3927)',
      ['169.254.0.0/16 b:1:19', '0.0.0.0/0 a:1:47'],
    ],
    ['fd00::1', 'not_masqueraded', 'fd00::/8 a:1:58', []],
    ['2001:db8::1', 'masqueraded', undefined, []],
  ] as const) {
    it(`is told for ${address}`, () => {
      const decision = decide(mergedOf(texts), addressFrom(address));
      assert.equal(decision.verdict, verdict);
      assert.equal(decision.decidedBy && line(decision.decidedBy), decidedBy);
      assert.deepEqual(decision.overridden.map(line), overridden);
    });
  }
});

function line({ prefix, origin }: Entry): string {
  return `${prefix.text} ${formatOrigin(origin)}`;
}

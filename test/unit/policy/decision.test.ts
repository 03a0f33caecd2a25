import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decide, noEntryText } from '../../../lib/policy/decision.ts';
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
      '169.254.1.1',
      'not_masqueraded',
      '169.254.0.0/16 built in (RFC 3927)',
      ['169.254.0.0/16 b:1:19', '0.0.0.0/0 a:1:47'],
    ],
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

describe('why packets from an address are masqueraded', () => {
  const address = 'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 192.0.2.0/24}]\n';
  const from = 'masqueradeFromCIDRs: [10.0.0.0/8, 10.1.0.0/16, 10.2.3.0/24]\n';
  const except = 'nonMasqueradeFromCIDRs: [10.2.0.0/16, 10.2.4.0/24, 172.16.0.0/12]\n';
  const all = 'nonMasqueradeFromCIDRs: [10.0.0.0/9, 10.128.0.0/9]\n';

  for (const [keys, source, match, isLeftAlone] of [
    [from, undefined, undefined, false],
    [from, '10.1.2.3', '10.0.0.0/8', false],
    [from, '11.0.0.1', undefined, true],
    [except, undefined, undefined, false],
    [except, '10.1.2.3', undefined, false],
    [except, '10.2.4.1', '10.2.0.0/16', true],
    [from + except, '10.1.2.3', '10.0.0.0/8', false],
    [from + except, '10.2.2.3', '10.2.0.0/16', true],
    [from + except, '10.2.3.4', '10.2.3.0/24', false],
    [from + except, '172.16.0.1', undefined, true],
    [`masqueradeFromCIDRs: [10.0.0.0/8]\n${all}`, undefined, undefined, true],
  ] as const)
    it(`is told for ${source ?? 'any address'} with ${keys.replaceAll('\n', ' ')}`, () => {
      const config = mergedOf({ a: address + keys });
      const decided = decide(config, addressFrom('8.8.8.8'), source && addressFrom(source));
      assert.deepEqual([decided.source.match?.prefix.text, decided.source.isLeftAlone], [match, isLeftAlone]);
      assert.equal(decided.verdict, isLeftAlone ? 'not_masqueraded' : 'masqueraded');
      assert.equal(decided.as?.range.text, isLeftAlone ? undefined : '192.0.2.0/24');
    });

  it('needs no address in a list if there is none', () => {
    const { source, verdict } = decide(mergedOf({}), addressFrom('8.8.8.8'), addressFrom('10.1.2.3'));
    assert.deepEqual([source.isLeftAlone, verdict], [false, 'masqueraded']);
  });
});

describe('why no entry leaves an address alone', () => {
  const flags = mergedOf({
    a: 'masqLinkLocal: true\nnonMasqueradeCIDRs: ["fe80::/16"]',
    b: 'masqLinkLocalIPv6: true',
  });

  for (const [address, told] of [
    ['169.254.0.0', 'masqLinkLocal of a:1:16'],
    ['169.254.255.255', 'masqLinkLocal of a:1:16'],
    ['febf::1', 'masqLinkLocalIPv6 of b:1:20'],
    // An entry decides.
    ['fe80::1', undefined],
    ['169.253.255.255', undefined],
    ['169.255.0.0', undefined],
  ] as const)
    it(`is told for ${address}`, () => {
      const { flag } = decide(flags, addressFrom(address));
      assert.equal(flag && formatOrigin(flag.origin), told?.split(' ').at(-1));
      assert.equal(noEntryText(flag).includes(`${told} `), told !== undefined);
    });
});

function line({ prefix, origin }: Entry): string {
  return `${prefix.text} ${formatOrigin(origin)}`;
}

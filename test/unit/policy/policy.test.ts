import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Family, parseAddress } from '../../../lib/cidr/address.ts';
import { compilePolicy, decider, type Entry, type Policy, type Verdict } from '../../../lib/policy/policy.ts';
import { formatOrigin } from '../../../lib/text/origin.ts';
import { crowdedAddress, crowdedPrefix, FAMILIES, holds, longest } from '../cidr/arbitrary.ts';
import { mergedOf } from '../config/support.ts';

describe('a policy', () => {
  const texts = {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]\nmasqueradeCIDRs: [10.1.0.0/16]',
    b: 'nonMasqueradeCIDRs: [192.168.0.0/16]\nmasqueradeCIDRs: ["fd00:1::/32"]',
  };

  it('has link-local first, then what is left alone, then the exceptions, each with its origin', () => {
    assert.deepEqual(lines(policyOf(texts, 'IPv4')), [
      '169.254.0.0/16 return built in (RFC 3927)',
      '10.0.0.0/8 return a:1:22',
      '192.168.0.0/16 return b:1:22',
      '10.1.0.0/16 masquerade a:2:19',
    ]);
  });

  it('has the entries of its family only', () => {
    assert.deepEqual(lines(policyOf(texts, 'IPv6')), [
      'fe80::/10 return built in (RFC 4291)',
      'fd00::/8 return a:1:34',
      'fd00:1::/32 masquerade b:2:19',
    ]);
  });

  for (const [flag, family, other] of [
    ['masqLinkLocal', 'IPv4', 'IPv6'],
    ['masqLinkLocalIPv6', 'IPv6', 'IPv4'],
  ] as const) {
    it(`has no link-local entry of ${family} where ${flag} is true, and keeps that of ${other}`, () => {
      assert.deepEqual(lines(policyOf({ a: `${flag}: true` }, family)), []);
      assert.equal(policyOf({ a: `${flag}: true` }, other).entries.length, 1);
    });
  }

  it('is RFC 1918 and link-local without any source', () => {
    assert.deepEqual(
      policyOf({}, 'IPv4').entries.map(({ prefix, verdict }) => `${prefix.text} ${verdict}`),
      ['169.254.0.0/16 return', '10.0.0.0/8 return', '172.16.0.0/12 return', '192.168.0.0/16 return'],
    );
    assert.deepEqual(lines(policyOf({}, 'IPv6')), ['fe80::/10 return built in (RFC 4291)']);
  });
});

describe('who decides for an address', () => {
  const texts = {
    a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.1.1.0/24, fd00::/8]\nmasqueradeCIDRs: [10.1.0.0/16, "fd00:1::/32"]',
  };

  for (const [address, line] of [
    ['10.0.0.1', '10.0.0.0/8 return a:1:22'],
    ['10.255.255.255', '10.0.0.0/8 return a:1:22'],
    ['10.1.0.1', '10.1.0.0/16 masquerade a:2:19'],
    ['10.1.1.1', '10.1.1.0/24 return a:1:34'],
    ['169.254.169.254', '169.254.0.0/16 return built in (RFC 3927)'],
    ['9.255.255.255', undefined],
    ['11.0.0.0', undefined],
    ['fd00::1', 'fd00::/8 return a:1:47'],
    ['fd00:1::1', 'fd00:1::/32 masquerade a:2:32'],
    ['fe80::1', 'fe80::/10 return built in (RFC 4291)'],
    ['2001:db8::1', undefined],
  ] as const) {
    it(`${address} is ${line ?? 'nobody: it is masqueraded'}`, () => {
      const parsed = parseAddress(address);
      assert.ok(parsed);
      const entry = decider(policyOf(texts, parsed.family))(parsed);
      assert.equal(entry && entryLine(entry), line);
    });
  }

  it('is the flag, not the entry, where link-local is listed to be masqueraded', () => {
    const policy = policyOf({ a: 'masqueradeCIDRs: [169.254.0.0/16]' }, 'IPv4');
    const entry = decider(policy)({ family: 'IPv4', value: 0xa9fe0001n });
    assert.equal(entry && entryLine(entry), '169.254.0.0/16 return built in (RFC 3927)');
  });

  it('is the entry where link-local is listed not to be masqueraded though the flag says so', () => {
    const policy = policyOf({ a: 'nonMasqueradeCIDRs: [169.254.0.0/16]\nmasqLinkLocal: true' }, 'IPv4');
    const entry = decider(policy)({ family: 'IPv4', value: 0xa9fe0001n });
    assert.equal(entry && entryLine(entry), '169.254.0.0/16 return a:1:22');
  });

  it('is a longer prefix inside link-local', () => {
    const policy = policyOf({ a: 'masqueradeCIDRs: [169.254.169.254/32]' }, 'IPv4');
    const decide = decider(policy);
    assert.equal(decide({ family: 'IPv4', value: 0xa9fea9fen })?.verdict, 'masquerade');
    assert.equal(decide({ family: 'IPv4', value: 0xa9fea9fdn })?.verdict, 'return');
  });

  for (const family of FAMILIES) {
    it(`is the entry of the longest ${family} prefix, the first of equal ones, as a search through all finds`, () => {
      const verdict = fc.constantFrom<Verdict>('return', 'masquerade');
      const entries = fc.array(fc.tuple(crowdedPrefix(family), verdict), { maxLength: 20 }).map((pairs) =>
        pairs.map(
          ([prefix, verdict], index): Entry => ({
            prefix,
            verdict,
            origin: { kind: 'file', source: 's', line: index + 1, column: 1 },
          }),
        ),
      );
      fc.assert(
        fc.property(entries, crowdedAddress(family), (entries, value) => {
          const expected = longest(entries.filter(({ prefix }) => holds(prefix, value)));
          assert.equal(decider({ family, from: [], entries })({ family, value }), expected);
        }),
        { numRuns: 1_000 },
      );
    });
  }
});

function policyOf(texts: Readonly<Record<string, string>>, family: Family): Policy {
  return compilePolicy(mergedOf(texts), family);
}

function lines(policy: Policy): readonly string[] {
  return policy.entries.map(entryLine);
}

function entryLine({ prefix, verdict, origin }: Entry): string {
  return `${prefix.text} ${verdict} ${formatOrigin(origin)}`;
}

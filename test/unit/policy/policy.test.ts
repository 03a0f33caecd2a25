import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Address, Family } from '../../../lib/cidr/address.ts';
import { MULTICAST } from '../../../lib/cidr/reserved.ts';
import { flowPolicy } from '../../../lib/policy/flow-policy.ts';
import {
  addressRequests,
  areCompiledFor,
  bestAddresses,
  compilePolicy,
  decider,
  type Entry,
  nodeAddressText,
  outcomeText,
  type Policy,
  type Verdict,
} from '../../../lib/policy/policy.ts';
import { formatOrigin } from '../../../lib/text/origin.ts';
import { crowdedAddress, crowdedPrefix, FAMILIES, holds, longest } from '../cidr/arbitrary.ts';
import { addressFrom } from '../cidr/support.ts';
import { mergedOf } from '../config/support.ts';
import { located } from './support.ts';

describe('a flow', () => {
  it('has no verdict if masqueradeFromCIDRs does not list its source, because another program may masquerade it', () => {
    const text = 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeFromCIDRs: [10.244.0.0/16]';
    const verdict = flowPolicy([policyOf({ a: text }, 'IPv4')]);
    const from = (source: string) => verdict(addressFrom(source), addressFrom('203.0.113.9'))?.verdict;
    assert.deepEqual(['10.244.1.2', '10.9.9.9'].map(from), ['masqueraded', undefined]);
  });
});

it('a policy says of its own family only where packets come from', () => {
  const text =
    'masqueradeFromCIDRs: [10.0.0.0/8, "fd00::/8"]\nnonMasqueradeFromCIDRs: [10.1.0.0/16, "fd01::/16"]';
  const from = policyOf({ a: text }, 'IPv6').from.map(({ prefix, verdict }) => [prefix.text, verdict]);
  assert.deepEqual(from, [
    ['fd00::/8', 'masqueraded'],
    ['fd01::/16', 'not_masqueraded'],
  ]);
});

describe('who decides for an address', () => {
  for (const family of FAMILIES) {
    it(`is the entry of the longest ${family} prefix, the first of equal ones, as a search through all finds`, () => {
      const verdict = fc.constantFrom<Verdict>('not_masqueraded', 'masqueraded');
      const entries = fc.array(fc.tuple(crowdedPrefix(family), verdict), { maxLength: 20 }).map((pairs) =>
        pairs.map(
          ([prefix, verdict], index): Entry => ({
            prefix,
            verdict,
            origin: { kind: 'file', configFile: 's', line: index + 1, column: 1 },
          }),
        ),
      );
      fc.assert(
        fc.property(entries, crowdedAddress(family), (entries, value) => {
          const expected = longest(entries.filter(({ prefix }) => holds(prefix, value)));
          assert.equal(decider({ entries })({ family, value }), expected);
        }),
        { numRuns: 1_000 },
      );
    });
  }
});

describe("the node's address that packets leave with", () => {
  // The last one has the same lowest bits as one of IPv4.
  const own = ['198.51.100.9', '198.51.100.8', '192.0.2.1', '::c633:6401'].map(addressFrom);
  const policy = compilePolicy(
    mergedOf({
      a: `
nonMasqueradeCIDRs: [10.0.0.0/8, 203.0.113.128/25]
masqueradeCIDRs: [10.1.0.0/16]
masqueradeAddresses:
  - {destination: 0.0.0.0/0, address: 192.0.2.0/24}
  - {destination: 203.0.113.0/24, address: 198.51.100.0/24}
  - {destination: 203.0.113.0/26, address: 198.18.0.0/24}
  - {destination: 10.1.2.0/24, address: 198.51.100.9/32}
  - {destination: 10.2.0.0/16, address: 198.51.100.9/32}
  - {destination: 239.1.0.0/16, address: 198.51.100.9/32}
`,
    }),
    'IPv4',
    own,
  );

  for (const [what, address, expected] of [
    ['is that of the longest destination', '203.0.113.77', 'masqueraded as 198.51.100.8'],
    ['is that of everything', '8.8.8.8', 'masqueraded as 192.0.2.1'],
    ["is the kernel's choice if there is none in the range", '203.0.113.1', 'masqueraded'],
    ['is none inside what is not masqueraded', '203.0.113.200', 'not masqueraded'],
    ['is none even if the destination is listed', '10.2.3.4', 'not masqueraded'],
    ['is that of a destination around an exception', '10.1.9.9', 'masqueraded as 192.0.2.1'],
    ['is that of a destination inside an exception', '10.1.2.9', 'masqueraded as 198.51.100.9'],
    ["is the kernel's choice for multicast", '224.0.0.5', 'masqueraded'],
    ["is the kernel's choice for a broadcast", '255.255.255.255', 'masqueraded'],
    ['is that of a destination inside multicast', '239.1.2.3', 'masqueraded as 198.51.100.9'],
  ] as const) {
    it(`${what}: ${address}`, () => {
      const { verdict = 'masqueraded', as } = decider(policy)(addressFrom(address)) ?? {};
      assert.equal(outcomeText(verdict, as && nodeAddressText(as)), expected);
    });
  }

  it('has an entry only where no other one has the same prefix, and for multicast with its RFC', () => {
    const destinations = ['0.0.0.0/0', '10.0.0.0/8', '10.1.0.0/16', '224.0.0.0/4', '::/0'];
    const masqueradeAddresses = destinations.map((destination) => ({
      destination,
      address: destination === '::/0' ? '2001:db8::/32' : '192.0.2.0/24',
    }));
    const lists = { nonMasqueradeCIDRs: ['10.0.0.0/8'], masqueradeCIDRs: ['10.1.0.0/16'] };
    const config = mergedOf({ a: JSON.stringify({ ...lists, masqueradeAddresses }) });
    const { entries } = compilePolicy(config, 'IPv4');
    assert.deepEqual(
      entries.map(({ prefix, as, origin }) => [prefix.text, as && nodeAddressText(as), formatOrigin(origin)]),
      [
        ['169.254.0.0/16', undefined, 'built in (RFC 3927)'],
        ['10.0.0.0/8', undefined, 'a:1:24'],
        ['10.1.0.0/16', "the node's address in 192.0.2.0/24", 'a:1:57'],
        ['0.0.0.0/0', "the node's address in 192.0.2.0/24", 'a:1:95'],
        ['224.0.0.0/4', "the node's address in 192.0.2.0/24", 'a:1:257'],
        ['255.255.255.255/32', undefined, 'built in (RFC 919)'],
      ],
    );
  });

  it('is the lowest of those with the lowest rank, of which there can be several', () => {
    const item = { destination: '0.0.0.0/0', address: '198.51.100.0/24' };
    const config = mergedOf({ a: JSON.stringify({ masqueradeAddresses: [item] }) });
    for (const [ranks, found, best] of [
      [{ 7: 0, 8: 0, 9: 0 }, [7, 8, 9], [7, 8, 9]],
      [{ 7: 1, 8: 0, 9: 2 }, [8, 7, 9], [8]],
      [{ 7: 4, 8: 1, 9: 1 }, [8, 9, 7], [8, 9]],
    ] as const) {
      const some = Object.entries(ranks).map(
        ([octet, rank]) => ({ family: 'IPv4', value: 0xc6336400n + BigInt(octet), rank }) as const,
      );
      const ranked = compilePolicy(config, 'IPv4', some);
      const [as] = addressRequests(ranked);
      const octets = (all: readonly Address[] = []) => all.map(({ value }) => Number(value & 0xffn));
      assert.deepEqual([octets(as?.candidates), octets(as && bestAddresses(as))], [found, best]);
      assert.equal(areCompiledFor(some, [ranked]), true);
      const worse = some.map((one) => (one.rank === 0 ? { ...one, rank: 1 } : one));
      assert.equal(areCompiledFor(worse, [ranked]), best.length === 2, 'a rank that changes is compiled');
    }
  });

  it('is compiled again only if an address comes or goes that a range asks for', () => {
    const others = ['172.16.0.1', '2001:db8::2'].map(addressFrom);
    assert.equal(areCompiledFor([...own.toReversed(), ...others], [policy]), true);
    assert.equal(areCompiledFor(own.slice(1), [policy]), false);
    assert.equal(areCompiledFor([...own, { family: 'IPv4', value: 0xc6120001n }], [policy]), false);
    assert.equal(areCompiledFor([], [compilePolicy(mergedOf({}), 'IPv4', own)]), true);
  });

  for (const family of FAMILIES) {
    it(`changes no verdict, and is that of the longest ${family} destination, as a search through all finds`, () => {
      const list = fc.uniqueArray(crowdedPrefix(family), { maxLength: 6, selector: ({ text }) => text });
      const item = fc.record({ destination: crowdedPrefix(family), range: crowdedPrefix(family) });
      const items = fc.uniqueArray(item, { maxLength: 6, selector: ({ destination }) => destination.text });
      const address = crowdedAddress(family);
      fc.assert(
        fc.property(list, list, items, fc.array(address), address, (inside, outside, items, own, value) => {
          const plain = {
            ...mergedOf({}),
            nonMasqueradeCIDRs: located(inside),
            masqueradeCIDRs: located(outside),
          };
          const config = { ...plain, masqueradeAddresses: located(items) };
          const addresses = own.map((value) => ({ family, value }));
          const entry = decider(compilePolicy(config, family, addresses))({ family, value });
          const verdict = decider(compilePolicy(plain, family))({ family, value })?.verdict ?? 'masqueraded';
          assert.equal(entry?.verdict ?? 'masqueraded', verdict);
          if (verdict === 'not_masqueraded') return;
          const many = MULTICAST[family].map(({ prefix }) => ({ destination: prefix, range: undefined }));
          const holding = [...items, ...many].filter(({ destination }) => holds(destination, value));
          const { range } = holding.toSorted((a, b) => b.destination.length - a.destination.length)[0] ?? {};
          const found =
            range && own.filter((one) => holds(range, one)).toSorted((a, b) => (a < b ? -1 : 1))[0];
          assert.equal(entry?.as?.range.text, range?.text);
          assert.equal(entry?.as?.candidates?.[0]?.value, found);
        }),
        { numRuns: 1_000 },
      );
    });
  }
});

function policyOf(texts: Readonly<Record<string, string>>, family: Family): Policy {
  return compilePolicy(mergedOf(texts), family);
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseAddress } from '../../../lib/cidr/address.ts';
import { renderChain } from '../../../lib/dataplane/iptables/chain.ts';
import { kernelVerdict } from '../../../lib/dataplane/iptables/verdict.ts';
import { decider, type Policy } from '../../../lib/policy/policy.ts';
import { crowdedAddress, crowdedPrefix, FAMILIES } from '../cidr/arbitrary.ts';

const JUMPS = ['-m addrtype ! --dst-type LOCAL -j OURS'];

describe('the verdict of a chain in the kernel', () => {
  for (const [what, rules, address, verdict, rule] of [
    [
      'that of the first rule that holds the address',
      ['-d 10.0.0.0/8 -j RETURN', '-j MASQUERADE'],
      '10.1.2.3',
      'return',
      0,
    ],
    [
      'that of the last rule',
      ['-d 10.0.0.0/8 -j RETURN', '-j MASQUERADE --random-fully'],
      '192.0.2.1',
      'masquerade',
      1,
    ],
    ['to leave alone what no rule holds', ['-d 10.0.0.0/8 -j MASQUERADE'], '192.0.2.1', 'return', undefined],
    ['to leave alone in an empty chain', [], '192.0.2.1', 'return', undefined],
    [
      'that of a single address',
      ['-d 10.1.2.3/32 -m comment --comment "x" -j ACCEPT', '-j MASQUERADE'],
      '10.1.2.3',
      'return',
      0,
    ],
    ['of IPv6 too', ['-d fd00::/8 -j RETURN', '-j MASQUERADE'], 'fd12::1', 'return', 0],
    [
      'blind for words in comments',
      ['-m comment --comment "-s ! -p" -j RETURN', '-j MASQUERADE'],
      '10.1.2.3',
      'return',
      0,
    ],
    [
      'that of the rule without ports behind those with',
      ['-p tcp -m comment --comment "ip-masq-agent: x" -j MASQUERADE --to-ports 1-2', '-j MASQUERADE'],
      '192.0.2.1',
      'masquerade',
      1,
    ],
  ] as const) {
    it(`is ${what}`, () => {
      const found = parseAddress(address);
      assert.ok(found);
      const observed = { family: found.family, rules, jumps: JUMPS };
      const decisive = rule === undefined ? undefined : `-A OURS ${rules[rule]}`;
      assert.deepEqual(kernelVerdict(observed, 'OURS', found), { state: 'applied', verdict, rule: decisive });
    });
  }

  for (const rule of [
    '-s 10.0.0.0/8 -j RETURN',
    '-p tcp -m tcp --dport 53 -j ACCEPT',
    '! -d 10.0.0.0/8 -j RETURN',
    '-d 10.1.0.0/16 -j SNAT --to-source 192.0.2.1',
    '-j THEIRS',
    '-p tcp -m comment --comment "x" -j MASQUERADE --to-ports 1-2',
  ]) {
    it(`is open where somebody has put ${rule} before`, () => {
      const address = parseAddress('10.1.2.3');
      assert.ok(address);
      const observed = { family: 'IPv4', rules: [rule, '-j MASQUERADE'], jumps: JUMPS } as const;
      const { state, rule: decisive } = kernelVerdict(observed, 'OURS', address);
      assert.deepEqual([state, decisive], ['changed', `-A OURS ${rule}`]);
    });
  }

  for (const [state, rules, jumps] of [
    ['no chain', undefined, JUMPS],
    ['no jump', ['-j MASQUERADE'], []],
    ['no jump', ['-j MASQUERADE'], ['-s 192.0.2.1/32 -j OURS']],
    ['no jump', ['-j MASQUERADE'], ['-p tcp -g OURS']],
  ] as const) {
    it(`is to leave everything alone where there is ${state}: ${jumps}`, () => {
      const address = { family: 'IPv4', value: 1n } as const;
      const observed = { family: 'IPv4', rules, jumps } as const;
      assert.deepEqual(kernelVerdict(observed, 'OURS', address), {
        state,
        verdict: 'return',
        rule: undefined,
      });
    });
  }

  for (const family of FAMILIES) {
    it(`is what the policy says, for every policy rendered and every ${family} address`, () => {
      const entry = fc.record({
        prefix: crowdedPrefix(family),
        verdict: fc.constantFrom('return' as const, 'masquerade' as const),
        origin: fc.constant({ kind: 'built-in', reason: 'test' } as const),
      });
      const options = fc.record({
        mode: fc.constant('nft' as const),
        chain: fc.constant('OURS'),
        randomFully: fc.boolean(),
        toPorts: fc.constantFrom(
          [],
          [{ first: 1024, last: 2000 }],
          [
            { first: 1, last: 9 },
            { first: 20, last: 30 },
          ],
        ),
      });
      fc.assert(
        fc.property(
          fc.array(entry, { maxLength: 12 }),
          options,
          crowdedAddress(family),
          (entries, some, value) => {
            const policy: Policy = { family, entries: firstOfEach(entries) };
            const rules = renderChain(policy, some).map(({ spec }) => spec);
            const { verdict } = kernelVerdict({ family, rules, jumps: JUMPS }, 'OURS', { family, value });
            assert.equal(verdict, decider(policy)({ family, value })?.verdict ?? 'masquerade');
          },
        ),
      );
    });
  }
});

/** One prefix with two verdicts is an error of the config, which never gets so far. */
function firstOfEach<Item extends { readonly prefix: { readonly text: string } }>(
  items: readonly Item[],
): readonly Item[] {
  return [...new Map(items.toReversed().map((item) => [item.prefix.text, item])).values()];
}

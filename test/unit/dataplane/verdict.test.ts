import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Family } from '../../../lib/cidr/address.ts';
import { renderChain } from '../../../lib/dataplane/iptables/chain.ts';
import { kernelVerdicts } from '../../../lib/dataplane/iptables/verdict.ts';
import { verdictAt } from '../../../lib/dataplane/kernel-verdicts.ts';
import type { Table, TableRule, TableSet } from '../../../lib/dataplane/nftables/ruleset.ts';
import { renderTable } from '../../../lib/dataplane/nftables/table.ts';
import { kernelVerdicts as nftablesVerdicts } from '../../../lib/dataplane/nftables/verdict.ts';
import { allowedSources } from '../../../lib/policy/flatten.ts';
import { compilePolicy, decider, nodeAddressText, type Verdict } from '../../../lib/policy/policy.ts';
import type { VerdictRange } from '../../../lib/policy/verdicts.ts';
import { crowdedAddress, FAMILIES } from '../cidr/arbitrary.ts';
import { addressFrom } from '../cidr/support.ts';
import { anyConfig, isAllowed } from '../policy/support.ts';
import { anyOptions } from './support.ts';

const ADDRESS = addressFrom('10.1.2.3');
const OPTIONS = { chain: 'OURS', randomFully: true, toPorts: [] };
const JUMPS = ['-m addrtype ! --dst-type LOCAL -j OURS'];

describe('the verdict of a chain in the kernel', () => {
  /** What the rules do with packets to 10.1.2.3, and the index of the rule that decides. */
  const CASES: readonly (readonly [what: string, rules: readonly string[], Verdict, decides?: number])[] = [
    ['to leave alone what no rule holds', ['-d 192.0.2.0/24 -j MASQUERADE'], 'not_masqueraded'],
    ['to leave alone in an empty chain', [], 'not_masqueraded'],
    [
      'that of a single address',
      ['-d 10.1.2.3/32 -m comment --comment "x" -j RETURN', '-j MASQUERADE'],
      'not_masqueraded',
      0,
    ],
    [
      'blind for words in comments',
      ['-m comment --comment "-s ! -p" -j RETURN', '-j MASQUERADE'],
      'not_masqueraded',
      0,
    ],
    [
      'known where a rule that asks for more says the same',
      ['-p tcp -j MASQUERADE --to-ports 1-2', '-d 192.0.2.0/24 -p udp -j RETURN', '-j MASQUERADE'],
      'masqueraded',
      2,
    ],
    [
      'known behind a rule that decides for the address',
      ['-d 10.1.0.0/16 -j RETURN', '-s 192.0.2.1/32 -j MASQUERADE', '-j MASQUERADE'],
      'not_masqueraded',
      0,
    ],
  ];
  for (const [what, rules, verdict, decides] of CASES)
    it(`is ${what}`, () => {
      const kernelRule = decides === undefined ? undefined : `-A OURS ${rules[decides]}`;
      const verdicts = kernelVerdicts(observedOf('IPv4', rules), 'OURS');
      assert.deepEqual(verdictAt(verdicts, ADDRESS), {
        state: 'applied',
        verdict,
        as: undefined,
        kernelRule,
      });
    });

  for (const rule of [
    '-s 10.0.0.0/8 -j RETURN',
    '-p tcp -m tcp --dport 53 -j ACCEPT',
    '-s 192.0.2.1/32 -d 10.0.0.0/8 -o eth0 -j RETURN',
    '-d 10.1.0.0/16 -m mark --mark 0x1 -j RETURN',
    '-m addrtype --src-type LOCAL -j RETURN',
    '! -d 10.0.0.0/16 ! -s 10.0.0.0/8 -j RETURN',
    '-d 10.0.0.0/255.0.255.0 -j RETURN',
    '-d 10.1.0.0/16 -j SNAT --to-source 192.0.2.1-192.0.2.9',
    '-d 10.1.0.0/16 -p tcp -j SNAT --to-source 192.0.2.1:1-2',
    '-m string --string "-d 10.9.0.0/16" --algo bm -j RETURN',
    '-g RETURN',
    '-j TEE --gateway 192.0.2.1',
    '-j THEIRS',
    '-j ACCEPT',
    '! -d 10.0.0.0/8 -j RETURN',
    '-d 10.0.0.0/8',
  ]) {
    it(`cannot be told where somebody has put ${rule} before`, () => {
      const rules = ['-d 10.1.2.0/26 -j MASQUERADE', '-p tcp -j MASQUERADE', rule, '-j MASQUERADE'];
      const verdicts = kernelVerdicts(observedOf('IPv4', rules.slice(1)), 'OURS');
      const { state, kernelRule } = verdictAt(verdicts, ADDRESS);
      assert.deepEqual([state, kernelRule], ['changed', `-A OURS ${rule}`]);
      const before = kernelVerdicts(observedOf('IPv4', rules), 'OURS');
      assert.equal(verdictAt(before, ADDRESS).state, 'applied');
    });
  }

  for (const [state, rules, jumps] of [
    ['no chain', undefined, []],
    ['no jump', ['-j MASQUERADE'], []],
  ] as const) {
    it(`is to leave everything alone where there is ${state}`, () => {
      const verdicts = kernelVerdicts(observedOf('IPv4', rules, jumps), 'OURS');
      const nothing = { state, verdict: 'not_masqueraded', as: undefined, kernelRule: undefined };
      assert.deepEqual(verdictAt(verdicts, ADDRESS), nothing);
    });
  }

  for (const [what, rules, jump, text] of [
    ['only some packets enter it', ['-d 10.0.0.0/8 -j RETURN', '-j MASQUERADE'], '-p tcp -g OURS'],
    ['iptables cannot list it', undefined, '-j OURS', 'chain OURS, which iptables cannot list'],
  ] as const) {
    it(`cannot be told where ${what}`, () => {
      const verdicts = kernelVerdicts(observedOf('IPv4', rules, [jump]), 'OURS');
      const at = (value: bigint) => verdictAt(verdicts, { family: 'IPv4', value });
      const kernelRule = text ?? `-A POSTROUTING ${jump}`;
      assert.deepEqual(at(1n), { state: 'changed', verdict: 'not_masqueraded', as: undefined, kernelRule });
    });
  }

  /** The agent's table for a config without entries, and what others make of it. */
  const TABLE = renderTable({ family: 'IPv4', from: [], entries: [] }, OPTIONS);
  const withRules = (change: (rules: readonly TableRule[]) => readonly TableRule[]): Table => ({
    ...TABLE,
    chains: TABLE.chains.map((chain) => ({ ...chain, rules: change(chain.rules) })),
  });
  const withSet = (set: Partial<TableSet>): Table => ({
    ...TABLE,
    sets: TABLE.sets.map((one) => ({ ...one, ...set })),
  });
  const TEN = { first: 0x0a00_0000n, last: 0x0aff_ffffn };
  const theirs: TableRule = { expressions: [{ name: 'counter', packets: 0n, bytes: 0n }] };
  for (const [what, table, verdicts] of [
    [
      'that of the elements in its set',
      withSet({ ranges: [TEN] }),
      ['masqueraded', 'not_masqueraded', 'masqueraded'],
    ],
    ['unknown if its set holds more than ranges', withSet({ hasOthers: true }), [undefined]],
    ['unknown if its set holds no addresses', withSet({ ranges: undefined }), [undefined]],
    ['unknown if its set has another name', withSet({ name: 'other' }), [undefined]],
    ['unknown behind a rule that is not its own', withRules((rules) => [theirs, ...rules]), [undefined]],
    ['known before a rule that is not its own', withRules((rules) => [...rules, theirs]), ['masqueraded']],
    ['to leave alone without the last rule', withRules((rules) => rules.slice(0, -1)), ['not_masqueraded']],
  ] as const)
    it(`of nftables is ${what}`, () => {
      const { ranges } = nftablesVerdicts('IPv4', table);
      assert.deepEqual(verdictsOf(ranges), verdicts);
    });

  it('cannot be told where packets enter another chain of the table too', () => {
    const theirs = TABLE.chains.map((chain) => ({ ...chain, name: 'theirs' }));
    const { ranges } = nftablesVerdicts('IPv4', { ...TABLE, chains: [...TABLE.chains, ...theirs] });
    assert.deepEqual(verdictsOf(ranges), [undefined]);
  });

  for (const family of FAMILIES) {
    it(`is what the policy says, for every policy rendered and every ${family} address`, () => {
      const address = crowdedAddress(family).map((value) => ({ family, value }));
      fc.assert(
        fc.property(
          anyConfig(family),
          fc.array(address),
          anyOptions,
          address,
          address,
          (config, own, some, destination, source) => {
            const policy = compilePolicy(config, family, own);
            const { verdict = 'masqueraded', as } = decider(policy)(destination) ?? {};
            const isAny = allowedSources(policy)?.ranges.length !== 0;
            const expected = {
              state: 'applied',
              verdict: isAny ? verdict : 'not_masqueraded',
              as: isAny ? as && nodeAddressText(as) : undefined,
            };
            const isListed = isAllowed(config, family, source.value);
            for (const verdicts of [
              kernelVerdicts({ ...observedOf(family, []), rules: renderChain(policy, some) }, some.chain),
              nftablesVerdicts(family, renderTable(policy, some)),
            ]) {
              const { kernelRule, ...read } = verdictAt(verdicts, destination);
              assert.deepEqual(read, expected, kernelRule);
              const ofFlow = verdictAt(verdicts, destination, source).verdict;
              assert.equal(ofFlow, isListed ? verdict : 'not_masqueraded');
            }
          },
        ),
        { numRuns: 300 },
      );
    });
  }
});

function verdictsOf(verdicts: readonly VerdictRange[]): readonly (Verdict | undefined)[] {
  return verdicts.map(({ verdict }) => verdict);
}

function observedOf(family: Family, rules: readonly string[] | undefined, jumps: readonly string[] = JUMPS) {
  return {
    family,
    rules: rules?.map((spec) => ({ chain: 'OURS', spec })),
    unreached: undefined,
    chains: rules === undefined && jumps.length === 0 ? [] : ['OURS'],
    jumps,
    mayHaveMoreJumps: false,
  };
}

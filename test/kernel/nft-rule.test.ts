import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { renderChain } from '../../lib/dataplane/iptables/chain.ts';
import { iptablesRule } from '../../lib/dataplane/iptables/nft-rule.ts';
import { ruleKey } from '../../lib/dataplane/iptables/rule.ts';
import { createRuleLab, readCorpus } from '../lab/iptables-corpus.ts';
import { randomRules } from '../lab/random-rules.ts';
import { RUNS } from '../lab/runs.ts';
import { policies, ruleOptions } from './arbitrary.ts';
import { FAMILIES } from './support.ts';

const CORPUS = await readCorpus();

describe('rules of iptables-nft, read over netlink, are what iptables -S prints', () => {
  for (const group of CORPUS.filter(({ family }) => FAMILIES.includes(family)))
    it(`recorded rules of programs, ${group.family} ${group.table}`, async (context) => {
      await using lab = await createRuleLab();
      await lab.compare(context, group);
    });

  for (const family of FAMILIES) {
    it(`the agent's own rules, ${family}`, async (context) => {
      await using lab = await createRuleLab();
      const property = fc.asyncProperty(policies(family), ruleOptions(), async (policy, options) => {
        const rules = renderChain(policy, options).map(({ chain, spec }) => `-A ${chain} ${spec}`);
        const printed = await lab.compare(context, { family, table: 'nat', rules });
        // iptables writes some addresses in another way, such as ::1:0 as ::0.1.0.0.
        assert.deepEqual(printed.map(ruleKey).toSorted(), rules.map(ruleKey).toSorted());
      });
      await fc.assert(property, { numRuns: 10 * RUNS });
    });

    it(`random combinations of matches, ${family}`, async (context) => {
      await using lab = await createRuleLab();
      const property = fc.asyncProperty(randomRules(family), async (rules) => {
        await lab.compare(context, { family, table: 'nat', rules });
      });
      await fc.assert(property, { numRuns: 10 * RUNS });
    });
  }
});

it('a comment of nft is the last match, as iptables prints it', () => {
  const verdict = { name: 'immediate', to: 0, verdict: { code: -5 } } as const;
  const rule = { expressions: [verdict], comment: 'as "nft" writes it' };
  const spec = String.raw`-m comment --comment "as \"nft\" writes it" -j RETURN`;
  assert.deepEqual(iptablesRule('IPv4', rule), { spec, isExact: true });
});

describe('a rule that is not as iptables writes it, or not understood', () => {
  const cases = [
    [{ name: 'match', extension: 'nfacct', revision: 0, info: '00' }, '[match nfacct]'],
    // Shorter than the kernel's structure, and with a flag that nobody knows.
    [{ name: 'match', extension: 'mark', revision: 1, info: '0000' }, '[match mark]'],
    [{ name: 'target', extension: 'MASQUERADE', revision: 0, info: `0100000040${'0'.repeat(38)}` }],
    [{ name: 'unknown', type: 'queue', bytes: '' }, '[queue]'],
    [{ name: 'masq', flags: 16 }, '-j MASQUERADE --random-fully'],
    [{ name: 'lookup', set: '__set0' }, '[lookup]'],
    [{ name: 'match', extension: 'set', revision: 4, info: `00000102${'0'.repeat(80)}` }],
  ] as const;
  const words = ['[target MASQUERADE]', '-m set --match-set (an ipset) src'];
  it('never throws, whatever the kernel sends', () => {
    const extensions = ['comment', 'tcp', 'multiport', 'conntrack', 'owner', 'set', 'SNAT', 'NETMAP', 'CT'];
    const hex = fc.uint8Array({ maxLength: 320 }).map((bytes) => Buffer.from(bytes).toString('hex'));
    const short = fc.uint8Array({ maxLength: 5 }).map((bytes) => Buffer.from(bytes).toString('hex'));
    const small = fc.nat(17);
    const name = fc.constantFrom('match' as const, 'target' as const);
    const expression = fc.oneof(
      fc.record({ name, extension: fc.constantFrom(...extensions), revision: fc.nat(4), info: hex }),
      fc.record({ name: fc.constant('meta' as const), to: fc.constant(1), key: small }),
      fc.record({
        name: fc.constant('payload' as const),
        to: fc.constant(1),
        base: fc.nat(2),
        offset: small,
      }),
      fc.record({
        name: fc.constant('cmp' as const),
        from: fc.constant(1),
        operation: fc.nat(6),
        value: short,
      }),
      fc.record({ name: fc.constant('range' as const), from: fc.constant(1), first: short, last: short }),
      fc.record({
        name: fc.constant('bitwise' as const),
        from: fc.constant(1),
        to: fc.constant(1),
        mask: short,
      }),
      fc.record({ name: fc.constant('limit' as const), rate: fc.bigInt(0n, 99n), unit: fc.bigInt(0n, 99n) }),
    );
    const rule = fc.tuple(fc.constantFrom(...FAMILIES), fc.array(expression, { maxLength: 12 }));
    const property = fc.property(rule, ([family, expressions]) => {
      iptablesRule(family, { expressions });
    });
    fc.assert(property, { numRuns: 2000 * RUNS });
  });

  for (const [expression, expected = words.shift()] of cases)
    it(`is ${expected}`, () => {
      const read = iptablesRule('IPv4', { expressions: [expression] });
      assert.deepEqual(read, { spec: expected, isExact: false });
    });
});

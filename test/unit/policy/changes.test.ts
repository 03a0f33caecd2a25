import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Address } from '../../../lib/cidr/address.ts';
import { isIn } from '../../../lib/cidr/ranges.ts';
import { changesBetween, describeChanges, describePolicyChange } from '../../../lib/policy/changes.ts';
import { decide } from '../../../lib/policy/decision.ts';
import {
  compilePolicy,
  decider,
  nodeAddressText,
  outcomeText,
  type Verdict,
} from '../../../lib/policy/policy.ts';
import {
  uniformVerdicts,
  type VerdictRange,
  type Verdicts,
  verdictsOf,
} from '../../../lib/policy/verdicts.ts';
import { borders, crowdedAddress, FAMILIES } from '../cidr/arbitrary.ts';
import { mergedOf } from '../config/support.ts';
import { anyConfig } from './support.ts';

describe('the changes between two policies', () => {
  it('are shown up to twenty, and the others are counted', () => {
    const cidrs = Array.from({ length: 23 }, (_, index) => `10.0.${2 * index}.0/24`);
    const policy = (text: string) => compilePolicy(mergedOf({ s: text }), 'IPv4');
    const { lines } = describePolicyChange(policy('{}'), policy(`nonMasqueradeCIDRs: [${cidrs}]`));
    assert.equal(lines.length, 21);
    assert.equal(lines[19], '10.0.38.0/24: masqueraded → not masqueraded');
    assert.equal(lines[20], '… and 3 more ranges, 768 addresses');
  });

  it('name the rule, cut off, because of which it cannot be told', () => {
    const config = mergedOf({ s: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqLinkLocal: true' });
    const rule = `-s 192.0.2.1/32 ${'x'.repeat(1000)}`;
    const before = uniformVerdicts('IPv4', { verdict: undefined, kernelRule: rule });
    const { summary, lines } = describeChanges(before, verdictsOf(compilePolicy(config, 'IPv4')));
    assert.match(
      summary,
      /^the old verdict of 4,294,967,296 addresses is unknown because of -s 192\.0\.2\.1\/32 x{384}…$/,
    );
    assert.equal(lines[1], '10.0.0.0/8: unknown → not masqueraded');
  });

  it('are two where two rules are the reason, and one where a known verdict comes from two rules', () => {
    const half = 2n ** 31n;
    const ofTwoRules = (verdict: Verdict | undefined): Verdicts => ({
      family: 'IPv4',
      ranges: [
        { first: 0n, last: half - 1n, verdict, kernelRule: '-s 192.0.2.1/32' },
        { first: half, last: 2n * half - 1n, verdict, kernelRule: 'y'.repeat(400) },
      ],
    });
    const after = verdictsOf(
      compilePolicy(mergedOf({ s: 'nonMasqueradeCIDRs: [0.0.0.0/0]\nmasqLinkLocal: true' }), 'IPv4'),
    );
    assert.deepEqual(describeChanges(ofTwoRules(undefined), after).lines, [
      '0.0.0.0/1: unknown → not masqueraded',
      '128.0.0.0/1: unknown → not masqueraded',
    ]);
    assert.deepEqual(describeChanges(ofTwoRules('masqueraded'), after).lines, [
      '0.0.0.0/0: masqueraded → not masqueraded',
    ]);
    const ofOneRule = uniformVerdicts('IPv4', { verdict: undefined, kernelRule: 'one' });
    const twoHalves = mergedOf({ s: 'nonMasqueradeCIDRs: [0.0.0.0/1, 128.0.0.0/1]\nmasqLinkLocal: true' });
    assert.deepEqual(describeChanges(ofOneRule, verdictsOf(compilePolicy(twoHalves, 'IPv4'))).lines, [
      '0.0.0.0/0: unknown → not masqueraded',
    ]);
  });
});

for (const family of FAMILIES) {
  describe(`the changes between two random ${family} policies`, () => {
    it('are those of every address, in ranges as long as possible', () => {
      const configs = fc.tuple(anyConfig(family), anyConfig(family));
      fc.assert(
        fc.property(configs, fc.array(crowdedAddress(family)), ([a, b], addresses) => {
          const [before, after] = [compilePolicy(a, family), compilePolicy(b, family)];
          const changes = changesBetween(verdictsOf(before), verdictsOf(after));
          const prefixes = [...before.entries, ...after.entries].map(({ prefix }) => prefix);
          for (const value of [...addresses, ...borders(family, prefixes)]) {
            const found = changes.filter(({ first, last }) => first <= value && value <= last);
            const [was, is] = [before, after].map((policy) => outcomeAt(decider(policy), { family, value }));
            const outcomes = found.map((change) => [change.before, change.after].map(outcomeOf));
            assert.deepEqual(outcomes, was === is ? [] : [[was, is]]);
          }
          changes.forEach(({ first, ...change }, index) => {
            const previous = changes[index - 1];
            if (previous === undefined) return;
            assert.ok(previous.last < first);
            const isOther = (['before', 'after'] as const).some(
              (when) => outcomeOf(previous[when]) !== outcomeOf(change[when]),
            );
            assert.ok(previous.last + 1n < first || isOther);
          });
        }),
      );
    });

    it('have the verdicts of packets by where they come from, as is decided for each', () => {
      const address = crowdedAddress(family);
      fc.assert(
        fc.property(anyConfig(family), fc.array(fc.tuple(address, address)), (one, pairs) => {
          const { from, ranges } = verdictsOf(compilePolicy(one, family));
          for (const [value, source] of pairs) {
            const isListed = from?.ranges.some((range) => isIn(source, range)) ?? true;
            const match = ranges.find((range) => isIn(value, range));
            const { verdict } = decide(one, { family, value }, { family, value: source });
            assert.equal(verdict, isListed ? match?.verdict : 'not_masqueraded');
          }
        }),
      );
    });
  });
}

function outcomeAt(decide: ReturnType<typeof decider>, destination: Address): string {
  const { verdict = 'masqueraded', as } = decide(destination) ?? {};
  return outcomeText(verdict, as && nodeAddressText(as));
}

function outcomeOf({ verdict, as }: VerdictRange): string {
  assert.ok(verdict);
  return outcomeText(verdict, as);
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ruleTarget, ruleWords, sameRule, splitLines } from '../../../lib/dataplane/iptables/rule.ts';

describe('a rule as iptables prints it', () => {
  it('is words, quotes taken off', () => {
    assert.deepEqual(
      ruleWords('-d 10.0.0.0/8 -m comment --comment "it\\\'s \\"odd\\" \\\\ here" -j RETURN'),
      ['-d', '10.0.0.0/8', '-m', 'comment', '--comment', 'it\'s "odd" \\ here', '-j', 'RETURN'],
    );
  });

  for (const [a, b] of [
    ['-d ::10.0.0.0/104 -j RETURN', '-d ::a00:0/104 -j RETURN'],
    ['-d 10.0.0.1 -j RETURN', '-d 10.0.0.1/32 -j RETURN'],
    ['-j SNAT --to-source ::10.0.0.1', '-j SNAT --to-source ::a00:1'],
    ['-j SNAT --to-source [::10.0.0.1]:1024-2047', '-j SNAT --to-source [::a00:1]:1024-2047'],
    ['-m comment --comment word -j RETURN', '-m comment --comment "word" -j RETURN'],
  ] as const) {
    it(`is the same: ${a} and ${b}`, () => assert.ok(sameRule(a, b)));
  }

  for (const [a, b] of [
    ['-d 10.0.0.0/8 -j RETURN', '-d 10.0.0.0/9 -j RETURN'],
    ['-m comment --comment "a b" -j RETURN', '-m comment --comment a b -j RETURN'],
    ['-j RETURN', '-j MASQUERADE'],
    ['-j SNAT --to-source [::10.0.0.1]:1024-2047', '-j SNAT --to-source [::a00:1]:1024'],
  ] as const) {
    it(`is another: ${a} and ${b}`, () => assert.ok(!sameRule(a, b)));
  }

  for (const [spec, target] of [
    ['-m comment --comment "-j FAKE" -j REAL', 'REAL'],
    ['-p tcp -g ELSEWHERE', 'ELSEWHERE'],
    ['-j MASQUERADE --random-fully', 'MASQUERADE'],
    ['-m comment --comment nothing', undefined],
  ] as const) {
    it(`leads to ${target}: ${spec}`, () => assert.equal(ruleTarget(spec), target));
  }

  it('is a line also in a long listing behind a name that begins with a quote, which iptables prints as it is', () => {
    const rules = ['-A POSTROUTING -o "a -j RETURN', ...Array(500_000).fill('-A POSTROUTING -j RETURN')];
    assert.equal(splitLines(rules.join('\n')).length, rules.length);
  });
});

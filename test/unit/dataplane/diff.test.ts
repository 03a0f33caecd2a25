import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { PlannedRule } from '../../../lib/dataplane/dataplane.ts';
import { diffOf } from '../../../lib/dataplane/diff.ts';

const SIGN = { kept: ' ', added: '+', removed: '-' };

describe('a diff', () => {
  for (const [what, current, wanted, shown] of [
    ['with a rule replaced', 'axc', 'abc', ' a -x +b  c'],
    ['with a rule that moves to the end', 'abcd', 'bcda', '-a  b  c  d +a'],
    ['with two rules that change places', 'abcd', 'acbd', ' a -b  c +b  d'],
    ['with a duplicate', 'aab', 'ab', '-a  a  b'],
  ] as const) {
    it(what, () => assert.equal(show(current, wanted).join(' '), shown));
  }

  it('leads from the current rules to the wanted ones', () => {
    const rules = fc.string({ unit: fc.constantFrom(...'abcdef'), maxLength: 8 });
    fc.assert(
      fc.property(rules, rules, (current, wanted) => {
        const lines = show(current, wanted);
        const side = (signs: string) =>
          lines.filter((line) => signs.includes(line.charAt(0))).map((line) => line.charAt(1));
        assert.equal(side(' -').join(''), current);
        assert.equal(side(' +').join(''), wanted);
      }),
      { numRuns: 500 },
    );
  });
});

function show(current: string, wanted: string): readonly string[] {
  const rules = [...wanted].map((text): PlannedRule => ({ text, entry: undefined }));
  return diffOf({ current: [...current], wanted: rules }).map(
    ({ change, rule }) => `${SIGN[change]}${rule.text}`,
  );
}

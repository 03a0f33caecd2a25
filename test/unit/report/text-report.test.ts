import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import { textReport } from '../../../lib/report/text-report.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, CONFIG_FILES, ERROR, hostile, reportOf } from './report-support.ts';

describe('the report for people in colour', () => {
  it('colours no line of a config file that looks like a caret', () => {
    const report = { ...reportOf({ ...ERROR, at: { kind: 'file', configFile: 's', line: 1, column: 1 } }) };
    const text = textReport({ ...report, configFiles: [{ name: 's', text: '   | ^' }] }, true);
    assert.deepEqual(text.split('\n').slice(1, 3), [' 1 |    | ^', '   | \u001b[31m^\u001b[39m']);
  });

  it('is the same text without its codes, and has no other control characters', () => {
    const configFiles = fc.array(fc.record({ name: hostile(), text: hostile() }), { maxLength: 2 });
    fc.assert(
      fc.property(fc.array(anyProblem(), { maxLength: 4 }), configFiles, (problems, texts) => {
        const at = texts.map(({ name }) => ({ kind: 'file', configFile: name, line: 1, column: 1 }) as const);
        const placed = problems.map((problem, index) => ({
          ...problem,
          ...(at[index] && { at: at[index] }),
        }));
        const report = { ...reportOf(...placed), configFiles: [...CONFIG_FILES, ...texts] };
        const plain = textReport(report, false);
        assert.equal(stripVTControlCharacters(textReport(report, true)), plain);
        assert.doesNotMatch(plain.replaceAll('\n', ''), UNPRINTABLE);
      }),
    );
  });
});

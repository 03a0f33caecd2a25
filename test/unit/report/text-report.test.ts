import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import { textReport } from '../../../lib/report/text-report.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, CONFIG_FILES, hostile, PROBLEMS, reportOf } from './report-support.ts';

const { error, warning, info, nowhere } = PROBLEMS;

describe('the report for people in colour', () => {
  it('has positions bold, severities and carets in one colour, and the gravest first', () => {
    const [bold, plain, red, yellow, cyan, end] = [1, 22, 31, 33, 36, 39].map((code) => `\u001b[${code}m`);
    assert.equal(
      textReport(reportOf(info, error, warning, nowhere), true),
      `${bold}ip-masq-c${plain}: ${red}error${end}: is too large; split it
${red}error${end}: config directory /etc/config is missing; mount it
${bold}ip-masq-a:2:1${plain}: ${yellow}warning${end}: masqLinkLocal is false here (the other: built in (RFC 3927)); make the config files agree
 2 | masqLinkLocal: false
   | ${yellow}^${end}
${bold}deploy/b.yaml:2:5${plain}: ${cyan}info${end}: 10.0.0.0/8 is listed twice (the other: ip-masq-a:1:22); one of the two can go
 2 |   - 10.0.0.0/8
   |     ${cyan}^${end}
${bold}ip-masq-a:1:22${plain}
 1 | nonMasqueradeCIDRs: [10.0.0.0/8]
   |                      ${cyan}^${end}
2 config files, 2 errors, 1 warning, 1 info
`,
    );
  });

  it('colours no line of a config file that looks like a caret', () => {
    const report = { ...reportOf({ ...error, at: { kind: 'file', configFile: 's', line: 1, column: 1 } }) };
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

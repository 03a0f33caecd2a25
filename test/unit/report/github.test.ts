import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Problem } from '../../../lib/config/problem.ts';
import { githubReport } from '../../../lib/report/github.ts';
import { fileOf, printedSentence } from '../../../lib/report/report.ts';
import { printable } from '../../../lib/text/escape.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, PROBLEMS, reportOf } from './report-support.ts';

const { error, warning, info } = PROBLEMS;

describe('the report for GitHub Actions', () => {
  it('names the file that standard input was made from, and keeps the lines in the message', () => {
    const at = { kind: 'file', configFile: 'ip-masq-a', file: 'standard input', line: 7, column: 5 } as const;
    const report = reportOf({ ...info, at }, warning);
    const [first, second] = githubReport(report, 'a/kustomization.yaml').split('\n');
    const message = '::standard input:7:5: 10.0.0.0/8 is listed twice';
    assert.ok(
      first?.startsWith(`::notice file=a/kustomization.yaml,title=ip-masq-agent duplicate${message}`),
      first,
    );
    assert.equal(`${second}\n`, githubReport(reportOf(warning)));
  });

  for (const [name, problem, expected] of [
    [
      'escapes what ends a property or begins an escape',
      { ...error, message: '100%, or: more', at: { kind: 'whole-file', file: 'a,b:c%d' } },
      '::error file=a%2Cb%3Ac%25d,title=ip-masq-agent unreadable::100%25, or: more; split it\n',
    ],
    [
      'prints control characters as text',
      { ...error, message: 'a\nb', at: { kind: 'whole-file', file: 'a\n::error::b\u001b[2J' } },
      '::error file=a\\x0a%3A%3Aerror%3A%3Ab\\x1b[2J,title=ip-masq-agent unreadable::a\\x0ab; split it\n',
    ],
  ] as const) {
    it(name, () => assert.equal(githubReport(reportOf(problem)), expected));
  }

  it('has a line for each problem in their order, and nothing else', () => {
    const text = githubReport(reportOf(info, error, warning));
    const commands = text.split('\n').map((line) => line.split(' ')[0]);
    assert.deepEqual(commands, ['::notice', '::error', '::warning', '']);
    assert.equal(githubReport(reportOf()), '');
  });

  it('is read by the runner as it was meant, whatever the problems hold', () => {
    fc.assert(
      fc.property(fc.array(anyProblem(), { maxLength: 4 }), (problems) => {
        const lines = githubReport(reportOf(...problems)).split(/\r\n|\r|\n/);
        assert.equal(lines.pop(), '');
        const meant = problems.map((problem) => ({
          command: { error: 'error', warning: 'warning', info: 'notice' }[problem.severity],
          properties: readableProperties(problem),
          data: printedSentence(problem),
        }));
        assert.deepEqual(lines.map(runnerReads), meant);
        for (const line of lines) assert.doesNotMatch(line, UNPRINTABLE);
      }),
    );
  });
});

/** The properties that should reach the annotation. */
function readableProperties({ at, kind }: Problem): Readonly<Record<string, string>> {
  const file = printable(fileOf(at) ?? '').replace(/^=+/, '');
  return {
    ...(file === '' ? {} : { file }),
    ...(at?.kind === 'file' ? { line: String(at.line), col: String(at.column) } : {}),
    title: `ip-masq-agent ${kind}`,
  };
}

interface Command {
  readonly command: string;
  readonly properties: Readonly<Record<string, string>>;
  readonly data: string;
}

/** What the runner of GitHub Actions takes from a line of output (actions/runner, ActionCommand, second form). */
function runnerReads(line: string): Command {
  const [, info = '', data = ''] = /^\s*::(.*?)::(.*)$/s.exec(line) ?? assert.fail(`no command: ${line}`);
  const space = info.indexOf(' ');
  const command = space < 0 ? info : info.slice(0, space);
  const list = space < 0 ? '' : info.slice(space + 1).trim();
  const properties: Record<string, string> = {};
  for (const pair of list.split(',')) {
    const [, name, value] = /^=*([^=]+)=+([^=].*)$/s.exec(pair) ?? [];
    if (name !== undefined && value !== undefined)
      properties[name] = unescaped(value, ['\r', '\n', ':', ',', '%']);
  }
  return { command, properties, data: unescaped(data, ['\r', '\n', '%']) };
}

/** Each escape in its turn, that of "%" last. */
function unescaped(text: string, chars: readonly string[]): string {
  const escapes: Readonly<Record<string, string>> = {
    '\r': '%0D',
    '\n': '%0A',
    ':': '%3A',
    ',': '%2C',
    '%': '%25',
  };
  return chars.reduce((rest, char) => rest.replaceAll(escapes[char] ?? assert.fail(), () => char), text);
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Problem } from '../../../lib/config/problem.ts';
import { githubReport } from '../../../lib/report/github.ts';
import { fileOf, printedSentence } from '../../../lib/report/report.ts';
import { printable } from '../../../lib/text/escape.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, reportOf } from './report-support.ts';

describe('the report for GitHub Actions', () => {
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

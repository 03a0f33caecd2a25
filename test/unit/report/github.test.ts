import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  type FileOnly,
  KINDS,
  type Problem,
  type ProblemKind,
  sentence,
} from '../../../lib/config/problem.ts';
import { githubReport } from '../../../lib/report/github.ts';
import { printable } from '../../../lib/text/escape.ts';
import type { FileOrigin, Origin } from '../../../lib/text/origin.ts';
import { UNPRINTABLE } from '../config/support.ts';

describe('the report for GitHub Actions', () => {
  it('is read by the runner as it was meant, whatever the problems hold', () => {
    fc.assert(
      fc.property(fc.array(anyProblem(), { maxLength: 4 }), (problems) => {
        const lines = githubReport({ problems, config: undefined, configFiles: [] }).split(/\r\n|\r|\n/);
        assert.equal(lines.pop(), '');
        const meant = problems.map((problem) => ({
          command: { error: 'error', warning: 'warning', info: 'notice' }[problem.severity],
          properties: readableProperties(problem),
          data: printable(sentence(problem)),
        }));
        assert.deepEqual(lines.map(runnerReads), meant);
        for (const line of lines) assert.doesNotMatch(line, UNPRINTABLE);
      }),
    );
  });
});

/** The properties that should reach the annotation. */
function readableProperties({ at, kind }: Problem): Readonly<Record<string, string>> {
  const name = at?.kind === 'file' ? (at.file ?? at.configFile) : at?.kind === 'whole-file' ? at.file : '';
  const file = printable(name).replace(/^=+/, '');
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

const PIECES = [
  ...['%', '%25', '%0A', '\r', '\n', '\r\n', ':', '::', ',', '=', ' ', '##[error]', '\u001b[31m', '\u0085'],
  ...['\u202e', '\u2028', '\ud800', '😀', 'é', '\\', '"'],
  ...['/', '//', './', '../', '?', '#', '<', '>', '&', 'ip-masq-a', '\u0000', '\u007f'],
];

/** Texts that could be taken for more than text: by a terminal, or by the runner. */
function hostile(): fc.Arbitrary<string> {
  const pieces = fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((all) => all.join(''));
  return fc.oneof(pieces, fc.string({ unit: 'binary' }));
}

/** Problems of every kind and place, with hostile names and messages. */
function anyProblem(): fc.Arbitrary<Problem> {
  const inFile: fc.Arbitrary<FileOrigin> = fc.record(
    {
      kind: fc.constant('file' as const),
      configFile: hostile(),
      file: hostile(),
      line: fc.integer({ min: 1 }),
      column: fc.integer({ min: 1 }),
    },
    { requiredKeys: ['kind', 'configFile', 'line', 'column'] },
  );
  const wholeFile: fc.Arbitrary<FileOnly> = fc.record({
    kind: fc.constant('whole-file' as const),
    file: hostile(),
  });
  const origin: fc.Arbitrary<Origin> = fc.oneof(
    inFile,
    fc.constant({ kind: 'built-in' as const, basis: 'RFC 3927' }),
  );
  return fc.record(
    {
      severity: fc.constantFrom('error' as const, 'warning' as const, 'info' as const),
      kind: fc.constantFrom(...(Object.keys(KINDS) as ProblemKind[])),
      message: hostile(),
      remedy: hostile(),
      at: fc.oneof(origin, wholeFile),
      other: origin,
    },
    { requiredKeys: ['severity', 'kind', 'message', 'remedy'] },
  );
}

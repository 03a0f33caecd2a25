import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { formatProblemFrame } from '../../../lib/config/frame.ts';
import { formatProblem, type Problem } from '../../../lib/config/problem.ts';
import { UNPRINTABLE } from './support.ts';

describe('a problem in one line', () => {
  const problem = {
    severity: 'error',
    kind: 'shape',
    message: 'is wrong',
    remedy: 'write it right',
  } as const;

  it('says where, what and what to do', () => {
    const at = { kind: 'file', source: 'ip-masq-a', line: 3, column: 5 } as const;
    assert.equal(formatProblem({ ...problem, at }), 'ip-masq-a:3:5: error: is wrong; write it right');
  });

  it('names the file alone where it is about the whole file', () => {
    const at = { kind: 'whole-file', source: 'ip-masq-a' } as const;
    assert.equal(formatProblem({ ...problem, at }), 'ip-masq-a: error: is wrong; write it right');
  });

  it('names no file where it is about the directory', () => {
    assert.equal(formatProblem(problem), 'error: is wrong; write it right');
  });

  it('names the other origin of a conflict', () => {
    const at = { kind: 'file', source: 'ip-masq-b', line: 1, column: 2 } as const;
    const other = { kind: 'built-in', reason: 'RFC 3927' } as const;
    assert.equal(
      formatProblem({ ...problem, severity: 'warning', at, other }),
      'ip-masq-b:1:2: warning: is wrong (the other: built in (RFC 3927)); write it right',
    );
  });

  it('is one line, whatever the source is called', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (source) => {
        const at = { kind: 'file', source, line: 1, column: 1 } as const;
        assert.doesNotMatch(formatProblem({ ...problem, at, other: at }), UNPRINTABLE);
        assert.doesNotMatch(formatProblem({ ...problem, at: { kind: 'whole-file', source } }), UNPRINTABLE);
      }),
    );
  });
});

describe('a problem with its line', () => {
  const HEAD = /^s:\d+:\d+: error: is wrong; do right$/;

  for (const [name, text, line, column, expected] of [
    ['has a caret below the column', 'a: b\nfoo: bar\n', 2, 6, [' 2 | foo: bar', '   |      ^']],
    ['has a caret below the first column', 'foo', 1, 1, [' 1 | foo', '   | ^']],
    ['has a caret behind the end', 'foo', 1, 4, [' 1 | foo', '   |    ^']],
    ['has an empty line', '', 1, 1, [' 1 | ', '   | ^']],
    ['has a wider gutter for longer numbers', `${'\n'.repeat(99)}foo`, 100, 2, [' 100 | foo', '     |  ^']],
    ['shows tabs escaped, the caret behind', '\tx: 1', 1, 2, [' 1 | \\x09x: 1', '   |     ^']],
    ['shows the tab itself', '\tx: 1', 1, 1, [' 1 | \\x09x: 1', '   | ^']],
    ['shows escape sequences escaped', 'a\u001b[2Kb', 1, 6, [' 1 | a\\x1b[2Kb', '   |         ^']],
    ['drops the carriage return of CRLF', 'a: 1\r\nb: 2\r\n', 2, 1, [' 2 | b: 2', '   | ^']],
    ['keeps a carriage return inside a line', 'a\rb\n', 1, 3, [' 1 | a\\x0db', '   |      ^']],
    ['keeps the first of two carriage returns', 'a\r\r\n', 1, 1, [' 1 | a\\x0d', '   | ^']],
    [
      'cuts a long line behind the caret',
      'x'.repeat(500),
      1,
      11,
      [` 1 | ${'x'.repeat(120)}`, `   | ${' '.repeat(10)}^`],
    ],
    [
      'cuts a long line around the caret',
      `${'a'.repeat(200)}b${'c'.repeat(200)}`,
      1,
      201,
      [` 1 | ${'a'.repeat(60)}b${'c'.repeat(59)}`, `   | ${' '.repeat(60)}^`],
    ],
    [
      'cuts a long line before the caret at its end',
      'x'.repeat(500),
      1,
      501,
      [` 1 | ${'x'.repeat(60)}`, `   | ${' '.repeat(60)}^`],
    ],
    ['has no line where the source has none', 'a', 2, 1, []],
  ] as const) {
    it(name, () => {
      const [head, ...frame] = frameOf(text, line, column).split('\n');
      assert.match(head ?? '', HEAD);
      assert.deepEqual(frame, expected);
    });
  }

  it('shows both lines of a conflict', () => {
    const problem: Problem = {
      ...problemAt(1, 4),
      other: { kind: 'file', source: 'other', line: 2, column: 1 },
    };
    const sources = [
      { name: 's', text: 'a: 1' },
      { name: 'other', text: 'x\ny: 2' },
    ];
    assert.equal(
      formatProblemFrame(problem, sources),
      [
        's:1:4: error: is wrong (the other: other:2:1); do right',
        ' 1 | a: 1',
        '   |    ^',
        'other:2:1',
        ' 2 | y: 2',
        '   | ^',
      ].join('\n'),
    );
  });

  it('shows no line of a source that it was not given, nor of built-in origins', () => {
    assert.equal(formatProblemFrame(problemAt(1, 1), []), 's:1:1: error: is wrong; do right');
    const builtIn: Problem = { ...problemAt(1, 1), at: { kind: 'built-in', reason: 'RFC 3927' } };
    assert.equal(formatProblemFrame(builtIn, []), 'built in (RFC 3927): error: is wrong; do right');
  });

  it('is three printable lines for any text, the caret within the width', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), fc.nat(310), (text, at) => {
        const before = [...text].slice(0, at).join('').split('\n');
        const frame = frameOf(text, before.length, (before.at(-1)?.length ?? 0) + 1).split('\n');
        assert.equal(frame.length, 3);
        for (const line of frame) assert.doesNotMatch(line, UNPRINTABLE);
        assert.ok((frame[2]?.length ?? 0) <= (frame[1]?.length ?? 0) + 1);
      }),
    );
  });

  it('costs no more for the last line than for the first', { timeout: 5_000 }, () => {
    const sources = [{ name: 's', text: '-\n'.repeat(2 ** 19) }];
    for (let line = 1; line <= 20_000; line += 1) formatProblemFrame(problemAt(2 ** 19 - line, 1), sources);
  });
});

function problemAt(line: number, column: number): Problem {
  const at = { kind: 'file', source: 's', line, column } as const;
  return { severity: 'error', kind: 'shape', message: 'is wrong', remedy: 'do right', at };
}

function frameOf(text: string, line: number, column: number): string {
  return formatProblemFrame(problemAt(line, column), [{ name: 's', text }]);
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { problemFramer } from '../../../lib/config/frame.ts';
import type { Problem } from '../../../lib/config/problem.ts';
import { useWork } from '../../lab/work.ts';

const LONG = 'x'.repeat(500);
const caretBehind = (columns: number) => `   | ${' '.repeat(columns)}^`;

describe('a problem with its line', () => {
  const workOf = useWork();

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
    ['ends a line at a lone carriage return', 'a\rb\r\r\nc', 2, 2, [' 2 | b', '   |  ^']],
    ['counts a line between carriage returns', 'a\rb\r\r\nc', 4, 1, [' 4 | c', '   | ^']],
    ['cuts a long line behind the caret', LONG, 1, 11, [` 1 | ${'x'.repeat(120)}`, caretBehind(10)]],
    [
      'cuts a long line around the caret',
      `${'a'.repeat(200)}b${'c'.repeat(200)}`,
      1,
      201,
      [` 1 | ${'a'.repeat(60)}b${'c'.repeat(59)}`, caretBehind(60)],
    ],
    [
      'cuts a long line before the caret at its end',
      LONG,
      1,
      501,
      [` 1 | ${'x'.repeat(60)}`, caretBehind(60)],
    ],
    ['has no line where the config file has none', 'a', 2, 1, []],
  ] as const) {
    it(name, () => {
      const [head, ...frame] = frameOf(text, line, column).split('\n');
      assert.match(head ?? '', HEAD);
      assert.deepEqual(frame, expected);
    });
  }

  it('shows both lines of a conflict', () => {
    const other = { kind: 'file', configFile: 'other', line: 2, column: 1 } as const;
    const configFiles = [
      { name: 's', text: 'a: 1' },
      { name: 'other', text: 'x\ny: 2' },
    ];
    const shown = problemFramer(configFiles)({ ...problemAt(1, 4), other }).split('\n');
    const head = 's:1:4: error: is wrong (the other: other:2:1); do right';
    assert.deepEqual(shown, [head, ' 1 | a: 1', '   |    ^', 'other:2:1', ' 2 | y: 2', '   | ^']);
  });

  it('shows no line of a config file that it was not given, nor of built-in origins', () => {
    assert.equal(problemFramer([])(problemAt(1, 1)), 's:1:1: error: is wrong; do right');
    const builtIn: Problem = { ...problemAt(1, 1), at: { kind: 'built-in', basis: 'RFC 3927' } };
    assert.equal(problemFramer([])(builtIn), 'built in (RFC 3927): error: is wrong; do right');
  });

  it('looks for the lines of a text once, whatever line is shown, and of two texts by turns', async () => {
    const text = '-\n'.repeat(2 ** 16);
    const path = 'test/unit/config/workloads.ts';
    const work = await workOf({ path, name: 'showFrames', args: [text, 2_000] });
    assert.ok(work <= 100 * text.length, `${work} for ${text.length} characters`);
  });
});

function problemAt(line: number, column: number): Problem {
  const at = { kind: 'file', configFile: 's', line, column } as const;
  return { severity: 'error', kind: 'shape', message: 'is wrong', remedy: 'do right', at };
}

function frameOf(text: string, line: number, column: number): string {
  return problemFramer([{ name: 's', text }])(problemAt(line, column));
}

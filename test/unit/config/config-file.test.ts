import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decodeFile, LINE_BREAK, originIn } from '../../../lib/config/config-file.ts';
import { formatProblem } from '../../../lib/config/problem.ts';

const NOT_UTF8 = 'has a byte that is not UTF-8; save the file as UTF-8';
const UTF16 = 's:1:1: error: has a byte that is not UTF-8; save the file as UTF-8';

describe('a file decodes', () => {
  for (const [name, bytes, text] of [
    ['as UTF-8', Buffer.from('é: 日本 😀\n'), 'é: 日本 😀\n'],
    ['where it is empty', Buffer.alloc(0), ''],
    ['without its byte order mark', Buffer.from('\ufeffa: b'), 'a: b'],
    ['keeping a second byte order mark', Buffer.from('\ufeff\ufeffa'), '\ufeffa'],
    ['with its CRLF line ends kept', Buffer.from('a\r\nb\r\n'), 'a\r\nb\r\n'],
  ] as const) {
    it(name, () => assert.deepEqual(decodeFile('s', bytes), { name: 's', text }));
  }
});

describe('a file does not decode', () => {
  for (const [name, bytes, line] of [
    ['where a character breaks off', bytesOf('a\n', [0xef, 0xbf], 'b'), `s:2:1: error: ${NOT_UTF8}`],
    ['behind a byte order mark', bytesOf('\ufeffab', [0xff]), `s:1:3: error: ${NOT_UTF8}`],
    ['as UTF-16, little endian', Buffer.from('\ufeffa: b', 'utf16le'), UTF16],
    ['as UTF-16, big endian', Buffer.from('\ufeffa: b', 'utf16le').swap16(), UTF16],
    [
      'as UTF-16 without a byte order mark: every other byte is NUL',
      Buffer.from('a: b', 'utf16le'),
      's:1:2: error: has a NUL byte; save the file as plain text',
    ],
    [
      'with a NUL byte',
      Buffer.from('a: b\nc: \0'),
      's:2:4: error: has a NUL byte; save the file as plain text',
    ],
  ] as const) {
    it(name, () => {
      const problem = decodeFile('s', bytes);
      assert.ok('kind' in problem);
      assert.equal(problem.kind, 'encoding');
      assert.equal(formatProblem(problem), line);
    });
  }

  it('at the first bad byte, wherever that is', () => {
    const bad = fc.constantFrom([0xff], [0xc0, 0x80], [0xe2, 0x82], [0xf5], [0x80], [0xed, 0xbf, 0xbf]);
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        bad,
        fc.string({ unit: 'grapheme' }),
        (before, bad, after) => {
          fc.pre(!before.startsWith('\ufeff') && !before.includes('\ufffd'));
          const problem = decodeFile('s', bytesOf(before, bad, after));
          assert.ok('kind' in problem && problem.at?.kind === 'file');
          const lines = before.split(LINE_BREAK);
          assert.equal(problem.at.line, lines.length);
          assert.equal(problem.at.column, (lines.at(-1)?.length ?? 0) + 1);
        },
      ),
    );
  });
});

describe('a locator', () => {
  for (const [text, offset, line, column] of [
    ['', 0, 1, 1],
    ['ab', 0, 1, 1],
    ['ab', 2, 1, 3],
    ['a\nb', 1, 1, 2],
    ['a\nb', 2, 2, 1],
    ['a\r\nb', 3, 2, 1],
    ['a\n', 2, 2, 1],
    ['\n\n\n', 3, 4, 1],
    ['a\rb', 2, 2, 1],
    ['a\r\r\nb', 4, 3, 1],
    ['😀b', 2, 1, 3],
  ] as const) {
    it(`finds offset ${offset} of ${JSON.stringify(text)} at ${line}:${column}`, () => {
      const origin = originIn({ name: 's', text }, offset);
      assert.deepEqual(origin, { kind: 'file', configFile: 's', line, column });
    });
  }

  for (const [name, lineByLine, line, column] of [
    ['shifts places of a text that is in another file line by line', true, 11, 5],
    ['finds all of any other text of another file where it begins', false, 10, 5],
  ] as const) {
    it(name, () => {
      const file = { name: 'm.yaml', text: '' };
      const configFile = { name: 's', text: 'a\nb', embeddedIn: { file, line: 10, column: 5, lineByLine } };
      const origin = originIn(configFile, 2);
      assert.deepEqual(origin, { kind: 'file', configFile: 's', file: 'm.yaml', line, column });
    });
  }
});

function bytesOf(...parts: readonly (string | readonly number[])[]): Buffer {
  return Buffer.concat(parts.map((part) => Buffer.from(part as string)));
}

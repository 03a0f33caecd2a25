import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { fileName, printable } from '../../../lib/text/escape.ts';
import { UNPRINTABLE } from '../config/support.ts';

describe('a printable text', () => {
  for (const [name, text, expected] of [
    ['a line break', 'a\nb', 'a\\x0ab'],
    ['an escape sequence', '\u001b[31mred', '\\x1b[31mred'],
    ['a C1 control', '\u009b31m', '\\x9b31m'],
    ['a zero width space', '\u200b', '\\u{200b}'],
    ['a bidirectional override', '\u202e', '\\u{202e}'],
    ['a line separator', '\u2028', '\\u{2028}'],
    ['a lone surrogate', '\ud800', '\\u{d800}'],
    ['a tag character', '\u{e0041}', '\\u{e0041}'],
    ['a command of GitHub Actions', 'a ##[group]b', 'a \\x23#[group]b'],
    ['a command of Azure Pipelines', '##vso[task.x]', '\\x23#vso[task.x]'],
  ] as const) {
    it(`has ${name} escaped`, () => assert.equal(printable(text), expected));
  }

  it('keeps whatever people can see', () => {
    for (const text of ['ip-masq-cloud', 'é ü ß', '日本語', '😀', '"\'`\\$*?', '# a [b]', '## a', '::1']) {
      assert.equal(printable(text), text);
    }
  });

  it('is free of control characters, whatever it is made from', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        assert.doesNotMatch(printable(text), UNPRINTABLE);
      }),
    );
  });
});

describe('the name of a file', () => {
  it('begins no command of GitHub Actions, which skips white space', () => {
    for (const name of ['::error::a', ' \u00a0\u3000::add-mask::a', '::error ##[group]::'])
      assert.doesNotMatch(fileName(name), /^\s*::|##\w*\[/);
    assert.equal(fileName('a::b'), 'a::b');
  });
});

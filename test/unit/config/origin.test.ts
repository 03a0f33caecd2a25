import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { formatOrigin, printable } from '../../../lib/config/origin.ts';
import { escapeText } from '../../../lib/telemetry/escape.ts';
import { UNPRINTABLE } from './support.ts';

for (const [whom, shown] of [
  ['messages', printable],
  ['the log', escapeText],
] as const) {
  describe(`a text made printable for ${whom}`, () => {
    for (const [name, text, expected] of [
      ['a line break', 'a\nb', 'a\\x0ab'],
      ['a carriage return', 'a\rb', 'a\\x0db'],
      ['an escape sequence', '\u001b[31mred', '\\x1b[31mred'],
      ['a NUL', '\0', '\\x00'],
      ['a tab', '\t', '\\x09'],
      ['a C1 control', '\u009b31m', '\\x9b31m'],
      ['a next line', '\u0085', '\\x85'],
      ['a soft hyphen', '\u00ad', '\\xad'],
      ['a zero width space', '\u200b', '\\u{200b}'],
      ['a bidirectional override', '\u202e', '\\u{202e}'],
      ['a line separator', '\u2028', '\\u{2028}'],
      ['a paragraph separator', '\u2029', '\\u{2029}'],
      ['a byte order mark', '\ufeff', '\\u{feff}'],
      ['a lone surrogate', '\ud800', '\\u{d800}'],
      ['a tag character', '\u{e0041}', '\\u{e0041}'],
    ] as const) {
      it(`has ${name} escaped`, () => assert.equal(shown(text), expected));
    }

    it('keeps whatever people can see', () => {
      for (const text of ['ip-masq-cloud', 'é ü ß', '日本語', '😀', '"\'`\\$*?']) {
        assert.equal(shown(text), text);
      }
    });

    it('is free of control characters, whatever it is made from', () => {
      fc.assert(
        fc.property(fc.string({ unit: 'binary' }), (text) => {
          assert.doesNotMatch(shown(text), UNPRINTABLE);
        }),
      );
    });
  });
}

describe('an origin', () => {
  it('reads as file:line:column', () => {
    assert.equal(formatOrigin({ kind: 'file', source: 'ip-masq-a', line: 3, column: 5 }), 'ip-masq-a:3:5');
  });

  it('names the document where it is built in', () => {
    assert.equal(formatOrigin({ kind: 'built-in', reason: 'RFC 1918' }), 'built in (RFC 1918)');
  });

  it('cannot forge a line by the name of its source', () => {
    const forged = formatOrigin({ kind: 'file', source: 'ip-masq-a\nERROR: \u001b[2K', line: 1, column: 1 });
    assert.equal(forged, 'ip-masq-a\\x0aERROR: \\x1b[2K:1:1');
  });
});

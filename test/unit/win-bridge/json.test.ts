import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PlacedError } from '../../../lib/text/error.ts';
import { parseStrict } from '../../../lib/win-bridge/json.ts';
import { MINIFIED } from './samples.ts';

describe('text that is not plain JSON is an error with place and remedy:', () => {
  for (const [name, text, offset, message, remedy] of [
    ['nothing', '', 0, /^is empty$/, /^give/],
    ['white space', ' \n', 0, /^is empty$/, /^give/],
    ['a comment', '{"type": "x" /* y */}', 13, /comment/, /^remove the comment$/],
    ['a line comment', '// y\n{"type": "x"}', 0, /comment/, /^remove the comment$/],
    ['a trailing comma in an object', '{"type": "x",\n}', 12, /comma after/, /^remove the comma$/],
    ['a trailing comma in a list', '{"plugins": [1 , ]}', 15, /comma after/, /^remove the comma$/],
    ['a missing comma', '{"a": 1 "b": 2}', 8, /not valid JSON: Expected ',' or '}'/, /brackets/],
    ['single quotes', "{'a': 1}", 1, /not valid JSON/, /quotes/],
    ['a second document', '{"type": "x"} {}', 14, /not valid JSON/, /brackets/],
    ['a file that is cut off', '{"type": "x"', 12, /not valid JSON: Expected ',' or '}'/, /brackets/],
    ['deep nesting', `{"a":${'['.repeat(100_000)}`, 0, /more than 1000/, /^give/],
    ['a huge file', `{"a":"${'x'.repeat(300_000)}"}`, 0, /256 KiB/, /^give/],
  ] as const) {
    it(name, () => {
      const error = errorOf(text);
      assert.ok(error);
      assert.match(error.message, message);
      assert.match(error.remedy, remedy);
      assert.equal(error.offset, offset);
    });
  }

  it('and only that: exactly what JSON.parse refuses', () => {
    const piece = fc.constantFrom(
      ...'{}[],:"\\/-+.eE01u \n\t\u0001',
      ...['null', 'true', '"a"', '//', '/**/', '1e5'],
    );
    const broken = fc.tuple(fc.nat(MINIFIED.length), fc.nat(3), fc.array(piece, { maxLength: 3 }));
    fc.assert(
      fc.property(fc.array(broken, { minLength: 1, maxLength: 2 }), (cuts) => {
        const text = cuts.reduce(
          (now, [at, gone, put]) => now.slice(0, at) + put.join('') + now.slice(at + gone),
          MINIFIED,
        );
        const error = errorOf(text);
        assert.ok(error === undefined || (error.offset >= 0 && error.offset <= text.length));
        assert.equal(error === undefined, parses(text), text);
      }),
      { numRuns: 2000 },
    );
  });
});

function errorOf(text: string): PlacedError | undefined {
  try {
    parseStrict(text);
    return undefined;
  } catch (error) {
    if (error instanceof PlacedError) return error;
    throw error;
  }
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

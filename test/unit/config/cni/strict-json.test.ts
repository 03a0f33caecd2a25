import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CniError } from '../../../../lib/config/cni/cni-error.ts';
import { parseStrict } from '../../../../lib/config/cni/strict-json.ts';
import { MINIFIED } from './samples.ts';
import { itRejects } from './support.ts';

describe('text that is not plain JSON is an error with place and remedy', () => {
  itRejects([
    ['nothing', '', 0, /^is empty$/, /^give/],
    ['white space', ' \n', 0, /^is empty$/, /^give/],
    ['a comment', '{"type": "x" /* y */}', '/*', /comment/, /^remove the comment$/],
    ['a line comment', '// y\n{"type": "x"}', '//', /comment/, /^remove the comment$/],
    ['a trailing comma in an object', '{"type": "x",\n}', ',', /comma behind/, /^remove the comma$/],
    ['a trailing comma in a list', '{"plugins": [1 , ]}', ', ]', /comma behind/, /^remove the comma$/],
    ['a missing comma', '{"a": 1 "b": 2}', '"b"', /not valid JSON: comma expected/, /brackets/],
    ['single quotes', "{'a': 1}", "'a'", /not valid JSON/, /quotes/],
    ['a second document', '{"type": "x"} {}', '{}', /not valid JSON/, /brackets/],
    ['a file that is cut off', '{"type": "x"', undefined, /close brace expected/, /brackets/],
    ['deep nesting', `{"a":${'['.repeat(100_000)}`, undefined, /more than 64 levels/, /nesting/],
    ['a huge file', `{"a":"${'x'.repeat(300_000)}"}`, 0, /256 KiB/, /^give/],
  ]);
});

describe('whatever the text', () => {
  it('what JSON.parse refuses is an error, and what it takes is none', () => {
    const pieces = fc.constantFrom(
      ...'{}[],:"\\/-+.eE01u \n\t\u0001\ufeff',
      'null',
      'true',
      '"a"',
      '//',
      '/**/',
      '1e5',
      '-0',
    );
    const broken = fc.tuple(fc.nat(MINIFIED.length), fc.nat(3), fc.array(pieces, { maxLength: 3 }));
    fc.assert(
      fc.property(fc.array(broken, { minLength: 1, maxLength: 2 }), (cuts) => {
        const text = cuts.reduce(
          (now, [at, gone, put]) => now.slice(0, at) + put.join('') + now.slice(at + gone),
          MINIFIED,
        );
        const error = errorOf(text);
        if (error !== undefined) assert.ok(error.offset >= 0 && error.offset <= text.length);
        const valid = parses(text.replace(/^\ufeff/, ''));
        assert.equal(error === undefined, valid, `${text}: ${error?.message}`);
      }),
      { numRuns: 2000 },
    );
  });
});

function errorOf(text: string): CniError | undefined {
  try {
    parseStrict(text);
    return undefined;
  } catch (error) {
    if (error instanceof CniError) return error;
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

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Locator } from '../../../lib/config/source.ts';

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
    ['a\rb', 2, 1, 3],
    ['😀b', 2, 1, 3],
  ] as const) {
    it(`finds offset ${offset} of ${JSON.stringify(text)} at ${line}:${column}`, () => {
      const origin = new Locator({ name: 's', text }).origin(offset);
      assert.deepEqual(origin, { kind: 'file', source: 's', line, column });
    });
  }

  it('agrees with counting', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '\n', '\r', ' ') });
    fc.assert(
      fc.property(text, fc.nat(), (text, at) => {
        const offset = at % (text.length + 1);
        const before = text.slice(0, offset).split('\n');
        const { line, column } = new Locator({ name: 's', text }).origin(offset);
        assert.deepEqual([line, column], [before.length, (before.at(-1)?.length ?? 0) + 1]);
      }),
    );
  });
});

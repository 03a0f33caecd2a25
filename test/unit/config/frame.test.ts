import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { problemFramer } from '../../../lib/config/frame.ts';
import { problem } from '../../../lib/config/problem.ts';

// A golden page cannot show these: editors change them.
describe('the line of a problem ends at a line break of any kind', () => {
  for (const [text, line, shown] of [
    ['a: 1\r\nb: 2\r\n', 2, 'b: 2'],
    ['a\rb\r\r\nc', 2, 'b'],
    ['a\rb\r\r\nc', 4, 'c'],
  ] as const)
    it(JSON.stringify(text), () => {
      const at = { kind: 'file', configFile: 's', line, column: 1 } as const;
      const framed = problemFramer([{ name: 's', text }])(
        problem('shape', { message: 'x', remedy: 'y', at }),
      );
      assert.deepEqual(framed.split('\n').slice(1), [` ${line} | ${shown}`, '   | ^']);
    });
});

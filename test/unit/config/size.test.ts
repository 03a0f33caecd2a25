import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseEvents } from 'js-yaml';
import { countIndicators } from '../../../lib/config/size.ts';
import { PlacedError } from '../../../lib/text/error.ts';
import { almostConfig } from './arbitrary.ts';
import { anyPattern } from './patterns.ts';

const NO_LIMIT = Number.POSITIVE_INFINITY;

/** Of each mark, and of a text without any: a document with an empty value. */
const MOST_EVENTS = 6;

describe('the marks of a text', () => {
  for (const [text, count] of [
    ['a: [1, 2]', 3],
    ['{"a":[1,2]}', 3],
    ['fd00::/8', 0],
    ['?', 1],
    ['---\na\n...\n', 2],
    ['  # a, b: c\n# d, e', 0],
    ["# don't, do", 1],
    ['"\n# ", a', 1],
    ['a: 1 # b, c', 2],
    ['#\r- a', 1],
  ] as const) {
    it(`are ${count} in ${JSON.stringify(text)}`, () => assert.equal(countIndicators(text, NO_LIMIT), count));
  }

  for (const [name, texts] of [
    ['any text', almostConfig()],
    ['any pattern', anyPattern().map(({ repeat }) => repeat(200))],
  ] as const) {
    it(`bound what the YAML parser makes of ${name}`, () => {
      fc.assert(
        fc.property(texts, (text) => {
          const events = eventsOf(text);
          assert.ok(events <= MOST_EVENTS * (countIndicators(text, NO_LIMIT) + 1), `${events} events`);
        }),
        { numRuns: 2_000 },
      );
    });
  }

  it('are as many as the limit, and no more', () => {
    assert.equal(countIndicators('a: [1, 2]', 3), 3);
    assert.throws(
      () => countIndicators('a: [1, 2]', 2),
      (error) => error instanceof PlacedError && error.offset === 5,
    );
  });
});

describe('the lines of a text', () => {
  for (const end of ['\n', '\r', '\r\n', '#\n', ' b\n']) {
    it(`are at most 100,000 that end with ${JSON.stringify(end)}`, () => {
      assert.equal(countIndicators(end.repeat(100_000), NO_LIMIT), 0);
      assert.throws(() => countIndicators(end.repeat(100_001), NO_LIMIT), {
        message: 'has more than 100000 lines',
      });
    });
  }
});

function eventsOf(text: string): number {
  try {
    return parseEvents(text, { maxDepth: 16 }).length;
  } catch {
    return 0;
  }
}

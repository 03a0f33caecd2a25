import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { picture, type Soak, slopeOf, summary } from '../../bench/soak-report.ts';
import { ticks } from '../../bench/svg.ts';

/** An agent that holds a kilobyte more after each change, and needs twice as long in the end. */
const SOAK: Soak = {
  changes: Array.from({ length: 1000 }, (_, index) => (index < 100 ? 10 : index < 900 ? 15 : 20)),
  repairs: [30, 30],
  scrapes: 100,
  samples: Array.from({ length: 100 }, (_, index) => ({
    change: index * 10,
    resident: 50,
    anonymous: 10 + index / 100,
    heap: 5,
    openFiles: index === 50 ? 29 : 20,
    handles: 3,
  })),
  cpu: 5000,
};

describe('the summary of a soak', () => {
  for (const [what, expected] of [
    ['a slope of memory that grows', /anonymous .* \+1000\.0 kB in 1,000 changes$/m],
    ['a slope of memory that does not', /resident .* \+0\.0 kB in 1,000 changes$/m],
    [
      'the latency of the first and the last tenth',
      /reaction +median 10\.0 → 20\.0 ms, p95 10\.0 → 20\.0 ms/,
    ],
    ['open files at the begin, at the end and at most', /open files 20 → 20, at most 29/],
    ['the CPU of a change', /5\.0 ms CPU of the agent itself/],
  ] as const) {
    it(`has ${what}`, () => assert.match(summary(SOAK), expected));
  }
});

describe('the slope', () => {
  it('is that of the line that fits best', () => {
    assert.equal(
      slopeOf([
        [0, 1],
        [1, 3],
        [2, 2],
        [3, 4],
      ]),
      0.8,
    );
  });
});

describe('the picture of a soak', () => {
  it('has a curve for each thing that was watched, within the frame', () => {
    const points = Array.from(picture(SOAK).matchAll(/<polyline [^>]*points="([^"]+)"/g), ([, text = '']) =>
      text.split(' ').map((point) => point.split(',').map(Number)),
    );
    assert.equal(points.length, 8);
    for (const [x = Number.NaN, y = Number.NaN] of points.flat())
      assert.ok(x >= 70 && x <= 936 && y >= 40 && y <= 850, `${x},${y}`);
  });
});

describe('ticks', () => {
  for (const [most, expected] of [
    [100, [0, 25, 50, 75, 100]],
    [7, [0, 2, 4, 6, 8]],
    [0.3, [0, 0.1, 0.2, 0.3]],
    [1, [0, 0.25, 0.5, 0.75, 1]],
    [0, [0, 1]],
  ] as const) {
    it(`up to ${most}`, () =>
      assert.deepEqual(
        ticks(most).map((tick) => Math.round(tick * 100) / 100),
        expected,
      ));
  }
});

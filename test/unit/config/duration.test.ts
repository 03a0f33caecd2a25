import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseDuration } from '../../../lib/config/duration.ts';

const HOUR = 3_600_000;

describe('parseDuration reads, as Go does,', () => {
  // From parseDurationTests in Go's src/time/time_test.go.
  for (const [text, ms] of [
    ['0', 0],
    ['-0', 0],
    ['1478s', 1_478_000],
    ['-5s', -5_000],
    ['+5s', 5_000],
    ['5.6s', 5_600],
    ['5.s', 5_000],
    ['.5s', 500],
    ['1.004s', 1_004],
    ['100.00100s', 100_001],
    ['10ns', 0.000_01],
    ['11us', 0.011],
    ['12\u00b5s', 0.012],
    ['12\u03bcs', 0.012],
    ['13ms', 13],
    ['3h30m', 3.5 * HOUR],
    ['10.5s4m', 4 * 60_000 + 10_500],
    ['-2m3.4s', -123_400],
    ['1h2m3s4ms5us6ns', HOUR + 2 * 60_000 + 3_000 + 4 + 0.005_006],
    ['39h9m14.425s', 39 * HOUR + 9 * 60_000 + 14_425],
    ['0.3333333333333333333h', 20 * 60_000],
    ['0.100000000000000000000h', 6 * 60_000],
    ['1s1s', 2_000],
    // Not from there: in floating point it is a little more.
    ['1.1h', 66 * 60_000],
  ] as const) {
    it(text, () => assert.equal((parseDuration(text) ?? Number.NaN) + 0, ms));
  }
});

describe('parseDuration rejects, as Go does,', () => {
  const rejected = [
    ...['', '3', '-', 's', '.', '-.', '.s', '+.s', '1d', '60', '1h 30m', ' 1s', '1s ', '1s\n', '1S', '1e3s'],
    ...['0x1s', '1_000s', '1..5s', '1.5.5s', '--1s', '1-s', '1m-30s', '1:30', '１s', '١s', 'NaNs', 'PT1M'],
    'Infinitys',
  ];
  for (const text of rejected) {
    it(JSON.stringify(text), () => assert.equal(parseDuration(text), undefined));
  }
});

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { CALM, missing, present, unreadyReason } from '../../../lib/agent/out-of-sync.ts';

/** When what is found: that the rules are missing, repaired, or in sync untouched. */
type Found = readonly (readonly [at: number, found: 'missing' | 'repaired' | 'untouched'])[];

const CASES: readonly (readonly [what: string, found: Found, at: number, isReady: boolean])[] = [
  ['nothing', [], 60_000, true],
  ['a repair', [[0, 'repaired']], 60_000, true],
  [
    'repairs for less than five seconds',
    [
      [0, 'repaired'],
      [4_999, 'repaired'],
    ],
    4_999,
    true,
  ],
  [
    'repairs for five seconds',
    [
      [0, 'repaired'],
      [2_000, 'repaired'],
      [5_000, 'repaired'],
    ],
    5_000,
    false,
  ],
  [
    'repairs with a good sync between them',
    [
      [0, 'repaired'],
      [2_000, 'untouched'],
      [5_000, 'repaired'],
    ],
    5_000,
    true,
  ],
  [
    'repairs with five seconds of calm between them',
    [
      [0, 'repaired'],
      [5_000, 'repaired'],
    ],
    9_999,
    true,
  ],
  [
    'a good sync just after repairs',
    [
      [0, 'repaired'],
      [4_000, 'repaired'],
      [6_000, 'repaired'],
      [6_500, 'untouched'],
    ],
    10_999,
    false,
  ],
  [
    'five seconds of calm after repairs',
    [
      [0, 'repaired'],
      [4_000, 'repaired'],
      [6_000, 'repaired'],
      [6_500, 'untouched'],
    ],
    11_000,
    true,
  ],
  [
    'rules that are missing for less than five seconds',
    [
      [0, 'missing'],
      [2_000, 'missing'],
    ],
    4_999,
    true,
  ],
  [
    'rules that are missing for five seconds',
    [
      [0, 'missing'],
      [2_000, 'missing'],
    ],
    5_000,
    false,
  ],
  ['rules that are missing for a minute', [[0, 'missing']], 60_000, false],
  [
    'rules that were missing for a moment, time and again',
    [
      [0, 'missing'],
      [10, 'untouched'],
      [4_000, 'missing'],
      [4_010, 'untouched'],
      [8_000, 'missing'],
    ],
    8_000,
    true,
  ],
  [
    'rules that were missing for seconds, and are good for less than five',
    [
      [0, 'missing'],
      [7_000, 'untouched'],
    ],
    11_999,
    false,
  ],
  [
    'rules that were missing for seconds, and are good for five',
    [
      [0, 'missing'],
      [7_000, 'untouched'],
    ],
    12_000,
    true,
  ],
];

for (const [what, found, at, isReady] of CASES)
  it(`after ${what} the agent is ${isReady ? '' : 'not '}ready`, () => {
    let outOfSync = CALM;
    for (const [time, one] of found)
      if (one === 'missing') outOfSync = missing(outOfSync, 'missing', time);
      else outOfSync = present(outOfSync, one === 'repaired' ? 'repaired' : undefined, time);
    assert.equal(unreadyReason(outOfSync, at) === undefined, isReady);
  });

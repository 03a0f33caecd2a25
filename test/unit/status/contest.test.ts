import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Contest } from '../../../lib/status/contest.ts';

const GOOD = { wasHeld: true, isHeld: true, by: [] };
const REPAIRED = { wasHeld: false, isHeld: true, by: ['nft'] };
const LOST = { wasHeld: false, isHeld: false, by: ['nft'] };

for (const [what, looks, at, expected] of [
  ['one repair', [[0, REPAIRED]], 60_000, false],
  [
    'repairs for less than five seconds',
    [
      [0, REPAIRED],
      [4_999, REPAIRED],
    ],
    4_999,
    false,
  ],
  [
    'repairs for five seconds',
    [
      [0, REPAIRED],
      [2_000, REPAIRED],
      [5_000, REPAIRED],
    ],
    5_000,
    true,
  ],
  [
    'repairs with a good look between them',
    [
      [0, REPAIRED],
      [2_000, GOOD],
      [5_000, REPAIRED],
    ],
    5_000,
    false,
  ],
  [
    'repairs with five seconds of calm between them',
    [
      [0, REPAIRED],
      [5_000, REPAIRED],
    ],
    9_999,
    false,
  ],
  [
    'a good look just after a fight',
    [
      [0, REPAIRED],
      [4_000, REPAIRED],
      [6_000, REPAIRED],
      [6_500, GOOD],
    ],
    10_999,
    true,
  ],
  [
    'five seconds of calm after a fight',
    [
      [0, REPAIRED],
      [4_000, REPAIRED],
      [6_000, REPAIRED],
      [6_500, GOOD],
    ],
    11_000,
    false,
  ],
  ['rules that did not stay when they were written', [[0, LOST]], 4_999, false],
  ['rules that do not stay for five seconds', [[0, LOST]], 5_000, true],
  ['rules that do not stay for a minute', [[0, LOST]], 60_000, true],
] as const) {
  it(`after ${what} the rules are ${expected ? '' : 'not '}contested`, () => {
    const contest = new Contest();
    for (const [now, look] of looks) contest.onLook(look, now);
    assert.equal(contest.isOn(at), expected);
  });
}

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Contest } from '../../../lib/status/contest.ts';

/** When syncs find what. */
interface Syncs {
  readonly repaired?: readonly number[];
  readonly good?: readonly number[];
  readonly lost?: readonly number[];
  /** When a sync has begun to write, whatever comes of it. */
  readonly begun?: readonly number[];
  /** When a sync has begun to read, and could not. */
  readonly unread?: readonly number[];
}

const CASES: readonly (readonly [what: string, syncs: Syncs, at: number, isContested: boolean])[] = [
  ['one repair', { repaired: [0] }, 60_000, false],
  ['repairs for less than five seconds', { repaired: [0, 4_999] }, 4_999, false],
  ['repairs for five seconds', { repaired: [0, 2_000, 5_000] }, 5_000, true],
  ['repairs with a good sync between them', { repaired: [0, 5_000], good: [2_000] }, 5_000, false],
  ['repairs with five seconds of calm between them', { repaired: [0, 5_000] }, 9_999, false],
  ['a good sync just after a fight', { repaired: [0, 4_000, 6_000], good: [6_500] }, 10_999, true],
  ['five seconds of calm after a fight', { repaired: [0, 4_000, 6_000], good: [6_500] }, 11_000, false],
  ['rules that did not stay when they were written', { lost: [0] }, 4_999, false],
  ['rules that do not stay for five seconds', { lost: [0] }, 5_000, true],
  ['rules that do not stay for a minute', { lost: [0] }, 60_000, true],
  ['a repair that goes on for less than five seconds', { begun: [0] }, 4_999, false],
  ['a repair that goes on for five seconds', { begun: [0] }, 5_000, true],
  ['rules that cannot be read for less than five seconds', { unread: [0, 2_000] }, 4_999, false],
  ['rules that cannot be read for five seconds', { unread: [0, 2_000] }, 5_000, true],
  ['rules that could not be read for seconds, and are good', { unread: [0], good: [7_000] }, 12_000, false],
  ['a repair that failed for seconds, and then succeeded', { begun: [0], good: [7_000] }, 12_000, false],
];

for (const [
  what,
  { repaired = [], good = [], lost = [], begun = [], unread = [] },
  at,
  isContested,
] of CASES) {
  it(`after ${what} the rules are ${isContested ? '' : 'not '}contested`, () => {
    const contest = new Contest();
    const syncs = [
      ...repaired.map((time) => ({ time, wasUntouched: false, inSync: true, by: ['nft'] })),
      ...good.map((time) => ({ time, wasUntouched: true, inSync: true, by: [] })),
      ...lost.map((time) => ({ time, wasUntouched: false, inSync: false, by: ['nft'] })),
    ];
    for (const time of unread) contest.onRetry('the lock is held', time);
    for (const time of begun) contest.onDifference(time);
    for (const { time, ...sync } of syncs.toSorted((a, b) => a.time - b.time))
      contest.onReconcile(sync, time);
    assert.equal(contest.isContested(at), isContested);
  });
}

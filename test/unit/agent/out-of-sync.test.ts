import assert from 'node:assert/strict';
import { it } from 'node:test';
import { CALM, foundInSync, foundOutOfSync, unreadyReason } from '../../../lib/agent/out-of-sync.ts';

/** By when what is found: that the rules are missing, repaired, or in sync untouched. */
type Found = Readonly<Record<number, 'missing' | 'repaired' | 'untouched'>>;

const MISSED: Found = { 0: 'missing', 7000: 'untouched' };

const CASES: readonly (readonly [what: string, found: Found, at: number, isReady: boolean])[] = [
  ['nothing', {}, 60_000, true],
  ['a repair', { 0: 'repaired' }, 60_000, true],
  ['repairs for less than five seconds', { 0: 'repaired', 4999: 'repaired' }, 4_999, true],
  ['repairs for five seconds', { 0: 'repaired', 2000: 'repaired', 5000: 'repaired' }, 5_000, false],
  ['a good sync between repairs', { 0: 'repaired', 2000: 'untouched', 5000: 'repaired' }, 5_000, true],
  ['calm between repairs', { 0: 'repaired', 5000: 'repaired' }, 9_999, true],
  ['a good sync after repairs', { 0: 'repaired', 4000: 'repaired', 6500: 'untouched' }, 10_999, true],
  ['rules that are missing for a moment', { 0: 'missing', 2000: 'missing' }, 4_999, true],
  ['rules that are missing for five seconds', { 0: 'missing', 2000: 'missing' }, 5_000, false],
  ['rules that are missing for a minute', { 0: 'missing' }, 60_000, false],
  ['rules that were missing, and are good for less than five seconds', MISSED, 11_999, false],
  ['rules that were missing, and are good for five seconds', MISSED, 12_000, true],
];

for (const [what, found, at, isReady] of CASES)
  it(`after ${what} the agent is ${isReady ? '' : 'not '}ready`, () => {
    let outOfSync = CALM;
    for (const [time, one] of Object.entries(found).map(([time, one]) => [Number(time), one] as const))
      if (one === 'missing') outOfSync = foundOutOfSync(outOfSync, 'missing', time);
      else outOfSync = foundInSync(outOfSync, one === 'repaired' ? 'repaired' : undefined, time);
    assert.equal(unreadyReason(outOfSync, at) === undefined, isReady);
  });

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { dueAt, type NextConfig, shareOf } from '../../../lib/agent/rollout.ts';

const CHANGE = { summary: 'the verdict changes for 256 addresses', lines: ['10.0.0.0/24: a → b'] };
const NO_CHANGE = { summary: 'no verdict changes', lines: [] };
const NO_RULES = { summary: 'the agent had no rules before', lines: [], hadNoEffect: true } as const;

const NEXT: NextConfig = { hash: '3f2a91c0d4e5', changes: [CHANGE], goesBack: false, since: 0 };
const ROLLOUT = { windowMs: 1_800_000, node: 'node-1' };

const anyHash = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 12, maxLength: 12 });
const anyTime = fc.double({ min: 0, max: 1e9, noNaN: true });
const anyRollout = fc.record({ windowMs: fc.integer({ min: 100, max: 576 * 3_600_000 }), node: fc.string() });
const anyNext = fc.record({ hash: anyHash, since: anyTime }).map((more) => ({ ...NEXT, ...more }));

describe('the time at which a node applies a config', () => {
  it('is within the window, and the same whenever it is asked for', () => {
    fc.assert(
      fc.property(
        anyNext,
        anyRollout,
        fc.double({ min: -1e9, max: 0, noNaN: true }),
        (next, rollout, ago) => {
          const { since } = next;
          const at = dueAt(undefined, next, since + ago - 1, rollout) ?? assert.fail('it does not wait');
          assert.ok(at >= since && at <= since + rollout.windowMs, `${at}`);
          assert.equal(dueAt(undefined, { ...next }, since - 1, { ...rollout }), at);
          assert.equal(dueAt(at, { ...next, since: since + 1 }, since, rollout), at > since ? at : undefined);
        },
      ),
    );
  });

  it('is never later than the window, whatever has been pending before', () => {
    fc.assert(
      fc.property(anyNext, fc.array(anyHash), anyRollout, anyTime, (first, later, rollout, now) => {
        const begun = dueAt(undefined, first, first.since - 1, rollout) ?? assert.fail('it does not wait');
        for (const hash of later)
          assert.equal(dueAt(begun, { ...first, hash, since: now }, first.since - 1, rollout), begun);
        assert.equal(dueAt(begun, first, first.since + rollout.windowMs, rollout), undefined);
      }),
    );
  });

  it('is spread evenly over 10,000 names, within 2 %, and each config begins with other nodes', () => {
    const names = Array.from(
      { length: 10_000 },
      (_, index) => `ip-10-0-${index >> 8}-${index & 255}.internal`,
    );
    const hashes = ['3f2a91c0d4e5', '3f2a91c0d4e6', '000000000000'];
    for (const hash of hashes) {
      const shares = names.map((name) => shareOf(name, hash)).toSorted((a, b) => a - b);
      for (const [rank, share] of shares.entries()) assert.ok(Math.abs(share - rank / 10_000) < 0.02);
      assert.ok((shares.at(-1) ?? 1) < 1);
    }
    const first = (hash: string) => names.filter((name) => shareOf(name, hash) < 0.1);
    const [a, b] = hashes.map(first);
    const both = a?.filter((name) => b?.includes(name)) ?? [];
    assert.ok(both.length > 50 && both.length < 150, `${both.length} of 1,000`);
  });

  for (const [what, next, isNow] of [
    ['waits for one family that changes', { changes: [NO_CHANGE, CHANGE] }, false],
    ['is at once if no verdict changes', { changes: [NO_CHANGE, NO_CHANGE] }, true],
    ['is at once if a family has no rules', { changes: [CHANGE, NO_RULES] }, true],
    ['is at once if the config goes back', { goesBack: true }, true],
  ] as const)
    it(what, () => {
      assert.equal(dueAt(undefined, { ...NEXT, ...next }, 0, ROLLOUT) === undefined, isNow);
    });
});

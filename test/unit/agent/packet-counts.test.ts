import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PacketCounts } from '../../../lib/agent/packet-counts.ts';
import type { Dataplane, EntryCount } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { compilePolicy, type Entry } from '../../../lib/policy/policy.ts';
import { merge } from '../config/support.ts';

const { config } = merge({
  a: 'nonMasqueradeCIDRs: [10.1.0.0/16, 10.2.0.0/16]',
  b: 'nonMasqueradeCIDRs: [10.3.0.0/16]',
});
assert.ok(config);
const POLICY = compilePolicy(config, 'IPv4');
const [, FIRST, SECOND] = POLICY.entries;
const STEP = 15_000;

function count(entry: Entry | undefined, packets: bigint, bytes = packets * 60n): EntryCount {
  return { entry, verdict: entry?.verdict ?? 'masquerade', packets, bytes };
}

/** A kernel that is read as the function says. */
function kernel(read: () => readonly EntryCount[] | Promise<readonly EntryCount[]>): Dataplane {
  return { count: async () => read() } as unknown as Dataplane;
}

/** Packet counts that are read at a time, in milliseconds, that the test says. */
function countsInTime() {
  let now = 0;
  const counts = new PacketCounts(() => now);
  return {
    since: (dataplane: Dataplane, at: number) => {
      now = at;
      return counts.since(dataplane, POLICY);
    },
  };
}

describe('packet counts', () => {
  it('are what was counted since the last reading, by source and verdict', async () => {
    const counts = countsInTime();
    let listed = [count(FIRST, 1n), count(SECOND, 2n), count(undefined, 5n)];
    const source = kernel(() => listed);
    const read = async (now: number) =>
      (await counts.since(source, now)).map(({ source: name, packets, bytes }) => [name, packets, bytes]);
    assert.deepEqual(await read(0), [
      ['a', 3n, 180n],
      [undefined, 5n, 300n],
    ]);
    listed = [count(FIRST, 1n), count(SECOND, 4n), count(undefined, 5n)];
    assert.deepEqual(await read(STEP), [
      ['a', 2n, 120n],
      [undefined, 0n, 0n],
    ]);
  });

  it('are read once in 15 seconds, and never twice at once', async () => {
    const counts = countsInTime();
    let readings = 0;
    const ready = Promise.withResolvers<readonly EntryCount[]>();
    const source = kernel(() => {
      readings += 1;
      return ready.promise;
    });
    const first = counts.since(source, 0);
    assert.deepEqual(await counts.since(source, 10 * STEP), []);
    ready.resolve([count(FIRST, 1n)]);
    await first;
    assert.deepEqual(await counts.since(source, STEP - 1), []);
    assert.equal(readings, 1);
    await counts.since(source, STEP);
    assert.equal(readings, 2);
  });

  it('of a reading that fails come with a later one', async () => {
    const counts = countsInTime();
    let isBusy = true;
    const source = kernel(() => {
      if (isBusy) throw new DataplaneError('busy', 'locked', 'wait');
      return [count(FIRST, 7n)];
    });
    assert.deepEqual(await counts.since(source, 0), []);
    isBusy = false;
    const [later] = await counts.since(source, STEP);
    assert.equal(later?.packets, 7n);
    await assert.rejects(
      counts.since(
        kernel(() => assert.fail('a bug')),
        2 * STEP,
      ),
      /a bug/,
    );
  });

  it('do not begin anew for a source one of whose entries goes', async () => {
    const counts = countsInTime();
    await counts.since(
      kernel(() => [count(FIRST, 100n), count(SECOND, 50n)]),
      0,
    );
    const [left] = await counts.since(
      kernel(() => [count(FIRST, 101n)]),
      STEP,
    );
    assert.equal(left?.packets, 1n);
  });

  it('see by its bytes that a rule was made anew where it has counted more packets since', async () => {
    const counts = countsInTime();
    await counts.since(
      kernel(() => [count(FIRST, 10n, 15_000n)]),
      0,
    );
    const [anew] = await counts.since(
      kernel(() => [count(FIRST, 12n, 720n)]),
      STEP,
    );
    assert.deepEqual([anew?.packets, anew?.bytes], [12n, 720n]);
  });

  it('never go down, and miss nothing but what a rewrite between two readings hides', async () => {
    const step = fc.record({ first: fc.nat(50), second: fc.nat(50), isRewritten: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const counts = countsInTime();
        let [first, second, sent, told, now, hidden] = [0, 0, 0, 0, 0, 0];
        for (const { first: one, second: two, isRewritten } of steps) {
          for (const before of isRewritten ? [first, second] : []) hidden += before;
          if (isRewritten) [first, second] = [0, 0];
          first += one;
          second += two;
          sent += one + two;
          const source = kernel(() => [count(FIRST, BigInt(first)), count(SECOND, BigInt(second))]);
          for (const { packets, bytes } of await counts.since(source, now)) {
            assert.ok(packets >= 0n && bytes === packets * 60n);
            told += Number(packets);
          }
          now += STEP;
        }
        assert.ok(told <= sent && told >= sent - hidden, `${told} of ${sent}`);
      }),
    );
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Counts, Dataplane, RuleCount } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { compilePolicy, type Entry } from '../../../lib/policy/policy.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';
import { mergedOf } from '../config/support.ts';

const config = mergedOf({
  a: 'nonMasqueradeCIDRs: [10.1.0.0/16, 10.2.0.0/16]',
  b: 'nonMasqueradeCIDRs: [10.3.0.0/16]',
});
const POLICY = compilePolicy(config, 'IPv4');
const [, FIRST, SECOND] = POLICY.entries;
const STEP = 15_000;

function count(entry: Entry | undefined, packets: bigint): RuleCount {
  const rule = `${entry?.prefix.text}`;
  return { ruleId: rule, entry, countedAs: entry?.verdict ?? 'masqueraded', packets };
}

/** One of several rules of the first entry. */
function part(rule: string, packets: bigint): RuleCount {
  return { ...count(FIRST, packets), ruleId: rule };
}

/** A kernel that is read as the function says, whose rules this process has made anew so many times. */
function kernel(read: () => Counts['rules'] | Promise<Counts['rules']>, incarnation = 0): Dataplane {
  return { count: async () => ({ incarnation, rules: await read() }) } as unknown as Dataplane;
}

/** Packet counts that are read at a time, in milliseconds, that the test says. */
function countsInTime() {
  let now = 0;
  const counts = new PacketCounts(() => now);
  return {
    since: (dataplane: Dataplane, at: number) => {
      now = at;
      return counts.takeGrowth(dataplane, POLICY);
    },
    entries: () => counts.entries(POLICY.family),
  };
}

describe('packet counts', () => {
  it('are what was counted since the last reading, by config file and verdict', async () => {
    const counts = countsInTime();
    let listed = [count(FIRST, 1n), count(SECOND, 2n), count(undefined, 5n)];
    const dataplane = kernel(() => listed);
    const read = async (now: number) =>
      (await counts.since(dataplane, now)).map(({ file: name, packets }) => [name, packets]);
    assert.deepEqual(await read(0), [
      ['a', 3n],
      [undefined, 5n],
    ]);
    listed = [count(FIRST, 1n), count(SECOND, 4n), count(undefined, 5n)];
    assert.deepEqual(await read(STEP), [
      ['a', 2n],
      [undefined, 0n],
    ]);
  });

  it('are read once in 15 seconds, and never twice at once', async () => {
    const counts = countsInTime();
    let readings = 0;
    const ready = Promise.withResolvers<Counts['rules']>();
    const dataplane = kernel(() => {
      readings += 1;
      return ready.promise;
    });
    const first = counts.since(dataplane, 0);
    assert.deepEqual(await counts.since(dataplane, 10 * STEP), []);
    ready.resolve([count(FIRST, 1n)]);
    await first;
    assert.deepEqual(await counts.since(dataplane, STEP - 1), []);
    assert.equal(readings, 1);
    await counts.since(dataplane, STEP);
    assert.equal(readings, 2);
  });

  it('of a reading that fails come with a later one', async () => {
    const counts = countsInTime();
    let isBusy = true;
    const dataplane = kernel(() => {
      if (isBusy) throw new DataplaneError('busy', 'locked', 'wait');
      return [count(FIRST, 7n)];
    });
    assert.deepEqual(await counts.since(dataplane, 0), []);
    isBusy = false;
    const [later] = await counts.since(dataplane, STEP);
    assert.equal(later?.packets, 7n);
    const buggy = kernel(() => assert.fail('a bug'));
    await assert.rejects(counts.since(buggy, 2 * STEP), /a bug/);
  });

  it('do not begin anew for a config file one of whose entries goes', async () => {
    const counts = countsInTime();
    let rules = [count(FIRST, 100n), count(SECOND, 50n)];
    const dataplane = kernel(() => rules);
    await counts.since(dataplane, 0);
    rules = [count(FIRST, 101n)];
    const [left] = await counts.since(dataplane, STEP);
    assert.equal(left?.packets, 1n);
  });

  it('are right where one of the rules of an entry goes', async () => {
    const counts = countsInTime();
    let rules = [part('lower half', 50n), part('upper half', 20n)];
    const dataplane = kernel(() => rules);
    await counts.since(dataplane, 0);
    rules = [part('upper half', 23n)];
    const [left] = await counts.since(dataplane, STEP);
    assert.equal(left?.packets, 3n);
  });

  it('are told of an entry as a whole', async () => {
    const { since, entries } = countsInTime();
    const rules = [part('lower half', 5n), count(SECOND, 3n), part('upper half', 2n)];
    await since(
      kernel(() => rules),
      0,
    );
    const counted = entries().map(({ entry, packets }) => [entry, packets]);
    assert.deepEqual(counted, [
      [FIRST, 7n],
      [SECOND, 3n],
    ]);
  });

  for (const [whose, misses] of [
    ['this process', 'nothing'],
    ['somebody else', 'nothing but what a rewrite between two readings hides'],
  ] as const) {
    it(`never go down where ${whose} rewrites the rules, and miss ${misses}`, async () => {
      const step = fc.record({ first: fc.nat(50), second: fc.nat(50), isRewritten: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
          const counts = countsInTime();
          let [first, second, sent, told, now, hidden, incarnation] = [0, 0, 0, 0, 0, 0, 0];
          for (const { first: one, second: two, isRewritten } of steps) {
            if (isRewritten) {
              if (whose === 'this process') incarnation += 1;
              else hidden += first + second;
              [first, second] = [0, 0];
            }
            first += one;
            second += two;
            sent += one + two;
            const rules = [count(FIRST, BigInt(first)), count(SECOND, BigInt(second))];
            const dataplane = kernel(() => rules, incarnation);
            for (const { packets } of await counts.since(dataplane, now)) {
              assert.ok(packets >= 0n);
              told += Number(packets);
            }
            now += STEP;
          }
          assert.ok(told <= sent, `${told} of ${sent}`);
          assert.ok(told >= sent - hidden, `${told} of ${sent}`);
        }),
      );
    });
  }
});

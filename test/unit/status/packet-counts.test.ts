import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';
import type { Dataplane, EntryCount } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';

const POLICY = { family: 'IPv4', from: [], entries: [] } as const;
const FRESH_MS = 15_000;

/** Counts, the time of which passes only as the test says. */
function create({ mock }: TestContext, count: () => Promise<readonly EntryCount[]>) {
  let now = 0;
  mock.method(performance, 'now', () => now);
  const counts = new PacketCounts();
  return {
    counts,
    read: () => counts.read({ count } as unknown as Dataplane, POLICY),
    packets: () => counts.byFamily.get('IPv4')?.map((one) => one.packets),
    wait: (ms: number) => {
      now += ms;
    },
  };
}

const counted = (packets: bigint): readonly EntryCount[] => [
  { entry: undefined, countedAs: 'masqueraded', packets },
];

it('the counts are as the kernel has them, read again only after a while', async (t) => {
  const kernel = [9n, 4n, 5n];
  const { read, packets, wait } = create(t, async () => counted(kernel.shift() ?? 0n));
  for (const [ms, expected] of [
    [0, 9n],
    [FRESH_MS - 1, 9n],
    [1, 4n],
    [FRESH_MS, 5n],
  ] as const) {
    wait(ms);
    await read();
    assert.deepEqual(packets(), [expected]);
  }
});

it('the counts stay if the kernel cannot be read, and a bug is no failure of the kernel', async (t) => {
  const errors = [undefined, new DataplaneError('busy', 'locked', 'wait'), new TypeError('a bug')];
  const { read, packets, wait } = create(t, async () => {
    const error = errors.shift();
    if (error !== undefined) throw error;
    return counted(7n);
  });
  await read();
  wait(FRESH_MS);
  await read();
  assert.deepEqual(packets(), [7n]);
  wait(FRESH_MS);
  await assert.rejects(read(), /a bug/);
});

it('there are never two readings of a family at once', async (t) => {
  const { promise, resolve } = Promise.withResolvers<readonly EntryCount[]>();
  let readings = 0;
  const { read, wait } = create(t, () => {
    readings += 1;
    return promise;
  });
  const first = read();
  wait(10 * FRESH_MS);
  await read();
  assert.equal(readings, 1);
  resolve([]);
  await first;
});

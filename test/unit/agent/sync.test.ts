import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { retrying } from '../../../lib/agent/retry.ts';
import { type FamilyChange, trySync } from '../../../lib/agent/sync.ts';
import type { Dataplane, Observed, Plan } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';

type Family = Plan['family'];

const POLICIES = [
  { family: 'IPv4', from: [], entries: [] },
  { family: 'IPv6', from: [], entries: [] },
] as const;

/** A kernel whose rules differ at so many first readings of each family. */
function fakeKernel(
  differs: Readonly<Record<Family, number>>,
  { read = async (_: Family) => {}, apply = async (_: Family) => {} } = {},
) {
  const left = { ...differs };
  const written: Family[] = [];
  const dataplane = {
    observe: async (family: Family) => {
      await read(family);
      left[family] -= 1;
      const write = async () => {
        written.push(family);
        await apply(family);
      };
      const plan = left[family] < 0 ? undefined : { family, found: [], apply: write };
      return { plan: () => plan } as Partial<Observed>;
    },
  } as Partial<Dataplane> as Dataplane;
  const changes = new Map<Family, FamilyChange>();
  const sync = { before: new Map(), begun: new Map(), changes, onApply: () => {} };
  const options = { timeoutMs: 5_000, signal: new AbortController().signal, onRetry: () => {} };
  const run = async () => {
    const ends = await retrying(() => trySync(dataplane, POLICIES, sync), options);
    return { changed: [...changes.keys()], inSync: ends.every(({ holds }) => holds) };
  };
  return { written, run };
}

describe('a sync', () => {
  it('writes every family that differs, and none if one of them cannot be read', async () => {
    const both: readonly Family[] = ['IPv4', 'IPv6'];
    const kernel = fakeKernel({ IPv4: 1, IPv6: 1 });
    assert.deepEqual(await kernel.run(), { changed: both, inSync: true });
    assert.deepEqual(kernel.written, both);
    const refused = new DataplaneError('refused', 'a rule cannot be read', 'look');
    const read = async (family: Family) => {
      if (family === 'IPv6') throw refused;
    };
    const unreadable = fakeKernel({ IPv4: 1, IPv6: 1 }, { read });
    await assert.rejects(unreadable.run(), refused);
    assert.deepEqual(unreadable.written, []);
  });

  it('writes to all families at once, and waits for each before it begins again', async () => {
    const end = Promise.withResolvers<void>();
    let isWriting = false;
    let failures = 1;
    const apply = async (family: Family) => {
      if (family === 'IPv4') {
        isWriting = true;
        await end.promise;
        isWriting = false;
      } else if (failures > 0) {
        failures -= 1;
        setTimeout(end.resolve, 200);
        throw new DataplaneError('raced', 'line 2 failed', 'look');
      }
    };
    const kernel = fakeKernel({ IPv4: 1, IPv6: 2 }, { read: async () => assert.ok(!isWriting), apply });
    assert.deepEqual((await kernel.run()).changed, ['IPv4', 'IPv6']);
    assert.deepEqual(kernel.written, ['IPv4', 'IPv6', 'IPv6']);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { retrying } from '../../../lib/agent/retry.ts';
import type { FamilyState } from '../../../lib/agent/state.ts';
import { type FamilyChange, trySync } from '../../../lib/agent/sync.ts';
import type { Dataplane, Plan } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Policy } from '../../../lib/policy/policy.ts';

type Family = Plan['family'];

const RACED = new DataplaneError('raced', 'line 2 failed', 'look');
const POLICIES = [
  { family: 'IPv4', from: [], entries: [] },
  { family: 'IPv6', from: [], entries: [] },
] as const;

/** What the kernel held before. */
const OTHER: Policy = { family: 'IPv4', from: [], entries: [] };

function planFor(family: Family): Omit<Plan, 'apply'> {
  const rules = { added: [], removed: [], kept: 0, current: [], wanted: [] };
  return { family, found: [], ...rules };
}

function plansFor(family: Family, length: number) {
  return Array.from({ length }, () => planFor(family));
}

/** A kernel that needs the plans in turn, one at each observation of the family, and notes the families that are written. */
function fakeKernel(
  needs: Partial<Record<Family, (Omit<Plan, 'apply'> | undefined)[]>>,
  apply: (plan: Omit<Plan, 'apply'>) => void | Promise<void> = () => {},
  {
    read = async (_: Family) => {},
    applied = undefined as readonly Policy[] | undefined,
    held = undefined as Policy | undefined,
  } = {},
) {
  const written: Family[] = [];
  const dataplane: Dataplane = {
    name: 'fake',
    reason: 'a test',
    ruleCount: () => 0,
    iptables: { mode: 'nft', suffix: '' },
    hearsChanges: true,
    observe: async (family) => {
      await read(family);
      const draft = needs[family]?.shift();
      const plan = draft && {
        ...draft,
        apply: async () => {
          written.push(family);
          await apply(draft);
        },
      };
      return {
        generation: undefined,
        plan: (policy) => (policy === held ? undefined : plan),
        planRemoval: () => plan,
        describeUndeletable: () => [],
        text: () => undefined,
        verdicts: () => ({ state: 'no chain', family, ranges: [] }),
      };
    },
    count: async () => [],
  };
  const families = new Map(
    (applied ?? []).map((policy) => [policy.family, { policy, dataplane } as FamilyState] as const),
  );
  const changes = new Map<Family, FamilyChange>();
  const sync = { before: families, begun: new Map(), changes, onApply: () => {} };
  const options = { timeoutMs: 5_000, signal: new AbortController().signal, onRetry: () => {} };
  const run = async () => {
    const ends = await retrying(() => trySync(dataplane, POLICIES, sync), options);
    return { changes, inSync: ends.every(({ holds }) => holds) };
  };
  return { written, run };
}

describe('a sync', () => {
  it('writes every family that differs, and none if one of them cannot be read', async () => {
    const plans = { IPv4: [planFor('IPv4')], IPv6: [planFor('IPv6')] };
    const kernel = fakeKernel(structuredClone(plans));
    const { changes, inSync } = await kernel.run();
    assert.deepEqual(
      [kernel.written, [...changes.keys()], inSync],
      [['IPv4', 'IPv6'], ['IPv4', 'IPv6'], true],
    );
    const refused = new DataplaneError('refused', 'a rule cannot be read', 'look');
    const read = async (family: Family) => {
      if (family === 'IPv6') throw refused;
    };
    const unreadable = fakeKernel(plans, () => {}, { read });
    await assert.rejects(unreadable.run(), refused);
    assert.deepEqual(unreadable.written, []);
  });

  it('tells what it has written if the kernel cannot be read again, which the next round says', async () => {
    const blocked = new DataplaneError('blocked', 'a process owns the table', 'look');
    let readings = 0;
    const read = async () => {
      readings += 1;
      if (readings > POLICIES.length) throw blocked;
    };
    const kernel = fakeKernel({ IPv4: [planFor('IPv4')] }, () => {}, { read });
    const { changes, inSync } = await kernel.run();
    assert.deepEqual([[...changes.keys()], inSync], [['IPv4'], false]);
    await assert.rejects(fakeKernel({}, () => {}, { read }).run(), blocked);
  });

  it('takes a change for drift only if the kernel no longer holds what was applied last', async () => {
    for (const [applied, drifted] of [
      [undefined, false],
      [[OTHER], false],
      [[POLICIES[0]], true],
    ] as const) {
      const kernel = fakeKernel({ IPv4: [planFor('IPv4')] }, () => {}, { applied, held: OTHER });
      const { changes } = await kernel.run();
      assert.equal(changes.get('IPv4')?.drifted, drifted);
    }
  });

  it('says so if another program has changed the rules before they were read back, and goes on', async () => {
    const kernel = fakeKernel({ IPv4: [planFor('IPv4'), planFor('IPv4')] });
    const { changes, inSync } = await kernel.run();
    assert.deepEqual([changes.size, inSync], [1, false]);
    assert.deepEqual(kernel.written, ['IPv4']);
  });

  it('tries again after a race, and tries no other way what the kernel refuses', async () => {
    let failures = 1;
    const raced = fakeKernel({ IPv4: plansFor('IPv4', 2) }, () => {
      failures -= 1;
      if (failures === 0) throw RACED;
    });
    assert.equal((await raced.run()).inSync, true);
    const refused = new DataplaneError('refused', 'no', 'look');
    const kernel = fakeKernel({ IPv4: plansFor('IPv4', 2) }, () => {
      throw refused;
    });
    await assert.rejects(kernel.run(), refused);
    assert.deepEqual(kernel.written, ['IPv4']);
  });

  it('writes to all families at once, and waits for each before it begins again', async () => {
    const both = Promise.withResolvers<void>();
    let isWriting = false;
    let failures = 1;
    const kernel = fakeKernel(
      { IPv4: [planFor('IPv4')], IPv6: [planFor('IPv6'), planFor('IPv6')] },
      async ({ family }) => {
        if (family === 'IPv4') {
          isWriting = true;
          await both.promise;
          isWriting = false;
        } else if (failures > 0) {
          failures -= 1;
          setTimeout(both.resolve, 200);
          throw RACED;
        }
      },
      { read: async () => assert.ok(!isWriting) },
    );
    const { changes } = await kernel.run();
    assert.deepEqual(kernel.written, ['IPv4', 'IPv6', 'IPv6']);
    assert.deepEqual([...changes.keys()], ['IPv4', 'IPv6']);
  });
});

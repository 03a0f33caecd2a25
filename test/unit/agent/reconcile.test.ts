import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { reconcile } from '../../../lib/agent/reconcile.ts';
import type { Dataplane, Plan } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';

type Family = Plan['family'];

const RACED = new DataplaneError('raced', 'line 2 failed', 'look');
const POLICIES = [
  { family: 'IPv4', from: [], entries: [] },
  { family: 'IPv6', from: [], entries: [] },
] as const;

function planFor(family: Family, recheck = false): Plan {
  const rules = { added: [], removed: [], kept: 0, current: [], wanted: [] };
  return { family, found: [], ...rules, remakes: true, recheck, script: `for ${family}` };
}

/** A kernel that needs the plans in turn, one at each observation of the family, and notes what is done to it. */
function fakeKernel(
  needs: Partial<Record<Family, (Plan | undefined)[]>>,
  apply: (plan: Plan) => void | Promise<void> = () => {},
  read: (family: Family) => Promise<void> = async () => {},
  { from = 'kernel', rechecks = true, applied = new Map() }: Partial<Parameters<typeof reconcile>[2]> = {},
) {
  const done: string[] = [];
  const dataplane: Dataplane = {
    name: 'fake',
    reason: 'a test',
    iptables: undefined,
    observe: async (family) => {
      done.push(`observe ${family}`);
      await read(family);
      const plan = needs[family]?.shift();
      const fates = { state: 'no chain', family, fates: [] } as const;
      return { plan: () => plan, remove: () => plan, fates: () => fates };
    },
    count: async () => ({ remade: 0, rules: [] }),
    apply: async (plan) => {
      done.push(`apply ${plan.family}`);
      await apply(plan);
    },
  };
  const options = {
    timeoutMs: 5_000,
    signal: new AbortController().signal,
    onRetry: () => {},
    onApply: () => {},
    applied,
    from,
    rechecks,
  };
  return { done, run: () => reconcile(dataplane, POLICIES, options) };
}

describe('reconciling', () => {
  it('observes every family before it writes to any', async () => {
    const kernel = fakeKernel({ IPv4: [planFor('IPv4')], IPv6: [planFor('IPv6')] });
    const plans = await kernel.run();
    assert.deepEqual(kernel.done, ['observe IPv4', 'observe IPv6', 'apply IPv4', 'apply IPv6']);
    assert.deepEqual([...plans.keys()], ['IPv4', 'IPv6']);
  });

  it('writes nothing where nothing differs', async () => {
    const kernel = fakeKernel({});
    assert.equal((await kernel.run()).size, 0);
    assert.deepEqual(kernel.done, ['observe IPv4', 'observe IPv6']);
  });

  it('looks once more at what another agent could have spoilt, and begins again where it has', async () => {
    const kernel = fakeKernel({
      IPv4: [planFor('IPv4', true), planFor('IPv4', true), planFor('IPv4', true)],
    });
    const plans = await kernel.run();
    assert.equal(kernel.done.filter((step) => step === 'apply IPv4').length, 2);
    assert.equal(kernel.done.filter((step) => step === 'observe IPv4').length, 4);
    assert.equal(plans.size, 1);
  });

  it('does not look once more if an event will lead to that', async () => {
    const kernel = fakeKernel({ IPv4: [planFor('IPv4', true)] }, undefined, undefined, { rechecks: false });
    await kernel.run();
    assert.equal(kernel.done.filter((step) => step === 'observe IPv4').length, 1);
  });

  it('observes again after a race', async () => {
    let failures = 2;
    const kernel = fakeKernel({ IPv4: [planFor('IPv4'), planFor('IPv4'), planFor('IPv4')] }, () => {
      failures -= 1;
      if (failures >= 0) throw RACED;
    });
    await kernel.run();
    assert.equal(kernel.done.filter((step) => step === 'observe IPv4').length, 3);
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
      async () => assert.ok(!isWriting),
    );
    const changes = await kernel.run();
    assert.deepEqual(kernel.done.slice(2), [
      'apply IPv4',
      'apply IPv6',
      'observe IPv4',
      'observe IPv6',
      'apply IPv6',
    ]);
    assert.deepEqual([...changes.keys()], ['IPv4', 'IPv6']);
  });

  it('reports what differed in the kernel, if what it remembered was wrong', async () => {
    const remembered = planFor('IPv4');
    const real = planFor('IPv4');
    const kernel = fakeKernel(
      { IPv4: [remembered, real] },
      (plan) => {
        if (plan === remembered) throw RACED;
      },
      undefined,
      { from: 'memory' },
    );
    assert.equal((await kernel.run()).get('IPv4')?.plan, real);
  });

  it('begins again only when no family is being read any more', async () => {
    let failures = 1;
    let isReading = false;
    const kernel = fakeKernel({}, undefined, async (family) => {
      assert.ok(!isReading, `${family} is read while another reading is under way`);
      if (family === 'IPv4') {
        failures -= 1;
        if (failures >= 0) throw RACED;
      } else {
        isReading = true;
        await delay(200);
        isReading = false;
      }
    });
    await kernel.run();
    assert.equal(kernel.done.filter((step) => step === 'observe IPv6').length, 2);
  });

  it('gives up a transaction that fails again and again with nothing changed', async () => {
    const kernel = fakeKernel({ IPv4: Array.from({ length: 9 }, () => planFor('IPv4')) }, () => {
      throw RACED;
    });
    await assert.rejects(kernel.run(), { failure: 'refused', message: /line 2 failed \(3 times/ });
  });

  it('does not give up after it has applied a policy, because another program causes the failures', async () => {
    let failures = 4;
    const kernel = fakeKernel(
      { IPv4: Array.from({ length: 5 }, () => planFor('IPv4')) },
      () => {
        failures -= 1;
        if (failures >= 0) throw RACED;
      },
      undefined,
      { applied: new Map([['IPv4', POLICIES[0]]]) },
    );
    await kernel.run();
    assert.equal(kernel.done.filter((step) => step === 'apply IPv4').length, 5);
  });
});

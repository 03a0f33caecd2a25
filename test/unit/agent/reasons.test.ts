import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { pauseAfter, Reasons, type Schedule, scheduleOf, type Trigger } from '../../../lib/agent/reasons.ts';
import { type FamilyState, Knowledge } from '../../../lib/agent/state.ts';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Events, TableChange } from '../../../lib/netlink/watch.ts';

const CALM: Schedule = {
  resyncAt: 1_000_000,
  pauseEndsAt: Number.NEGATIVE_INFINITY,
  outOfSyncAt: undefined,
  covered: new Map(),
};
const LOST = { items: [], lost: true } as const;

/** Changes of IPv4 rules, or of those of another family, in these generations by these programs. */
function changes(
  ...generations: readonly (readonly [id: number, process: string, family?: Family])[]
): Events<TableChange> {
  const items = generations.map(([id, process, family = 'IPv4']) => {
    return { id, process, port: 1, touched: [{ family, table: 'nat', kind: 'rules' } as const] };
  });
  return { items, lost: false };
}

/** Reasons after the start, with a clock that passes as the test says. */
async function create({ mock }: TestContext) {
  let now = 0;
  mock.method(performance, 'now', () => now);
  mock.timers.enable({ apis: ['setTimeout'] });
  const [reasons, stop] = [new Reasons(), new AbortController()];
  const take = (schedule: Partial<Schedule> = {}) => reasons.take({ ...CALM, ...schedule }, stop.signal);
  const pass = async (ms: number) => {
    now += ms;
    await immediate();
    mock.timers.tick(ms);
    await immediate();
  };
  assert.deepEqual(await take(), { reason: 'start', since: 0, by: [] });
  /** The trigger that comes at last, and when. */
  const next = async (schedule: Partial<Schedule> = {}) => {
    let taken: Trigger | undefined;
    const waiting = take(schedule).then((trigger) => {
      taken = trigger;
    });
    for (let step = 0; step < 300 && taken === undefined; step += 1) await pass(10);
    if (taken === undefined) stop.abort();
    await waiting;
    return taken && { ...taken, at: now };
  };
  return { reasons, stop, take, next, pass };
}

describe('reasons', () => {
  it('that come while nobody waits lead to one round, for the first of them', async (t) => {
    const { reasons, take, next } = await create(t);
    reasons.add('signal');
    for (let event = 0; event < 100; event += 1) reasons.add('change');
    assert.equal((await take())?.reason, 'signal');
    for (const reason of ['change', 'signal'] as const) reasons.add(reason);
    assert.equal((await take())?.reason, 'signal');
    assert.equal((await next({ resyncAt: 500 }))?.reason, 'resync');
  });

  it('that concern the node alone give way to those that also read the config files', async (t) => {
    const { reasons, take } = await create(t);
    for (const reason of ['change', 'signal'] as const) {
      reasons.add('addresses');
      reasons.add(reason);
      assert.equal((await take())?.reason, reason);
    }
  });

  it('that concern the node alone wait for the pause after the last round, but not longer than the resync', async (t) => {
    const { reasons, next } = await create(t);
    reasons.add('addresses');
    assert.partialDeepStrictEqual(await next({ pauseEndsAt: 300 }), { reason: 'addresses', at: 300 });
    reasons.add('addresses');
    const resync = await next({ pauseEndsAt: 2_000, resyncAt: 500 });
    assert.partialDeepStrictEqual(resync, { reason: 'resync', at: 500 });
  });

  it('end with the signal, before or while somebody waits, whatever is pending', async (t) => {
    const { reasons, stop, take } = await create(t);
    const waiting = take();
    stop.abort();
    assert.equal(await waiting, undefined);
    reasons.add('change');
    assert.equal(await take(), undefined);
  });
});

describe('changes of the kernel', () => {
  it('are a reason at once, with the names of the programs, unless the last round has covered them', async (t) => {
    const { reasons, next } = await create(t);
    const covered = new Map([['IPv4', 6]] as const);
    reasons.addChanges(changes([5, 'first'], [6, 'second']));
    assert.equal((await next({ covered, resyncAt: 100 }))?.reason, 'resync');
    reasons.addChanges(changes([7, 'dockerd'], [9, 'dockerd']));
    assert.deepEqual(await next({ covered }), { reason: 'kernel', since: 100, by: ['dockerd'], at: 110 });
  });

  it('are covered by the reading of their own family', async (t) => {
    const { reasons, next } = await create(t);
    reasons.addChanges(changes([8, 'a'], [6, 'a', 'IPv6'], [9, 'a'], [9, 'b']));
    const covered = new Map<Family, number | undefined>([
      ['IPv4', 9],
      ['IPv6', 5],
    ]);
    assert.deepEqual((await next({ covered }))?.by, ['a']);
    reasons.addChanges(changes([4, 'c', 'IPv6']));
    assert.equal((await next({ covered: new Map([['IPv4', 9]]) }))?.reason, 'kernel');
  });

  it('that were lost are a reason, and so is a round that has not ended in sync', async (t) => {
    const { reasons, next } = await create(t);
    reasons.addChanges(LOST);
    assert.deepEqual((await next({ covered: new Map([['IPv4', 9]]) }))?.by, []);
    assert.equal((await next({ outOfSyncAt: 50 }))?.at, 50);
  });

  it('are told apart also when generations begin again', async (t) => {
    const { reasons, next } = await create(t);
    const covered = new Map([['IPv4', 0xffff_ffff]] as const);
    reasons.addChanges(changes([0xffff_ffff, 'x']));
    assert.equal((await next({ covered, resyncAt: 100 }))?.reason, 'resync');
    reasons.addChanges(changes([0, 'x']));
    assert.equal((await next({ covered }))?.reason, 'kernel');
  });

  it('do not put off the resync', async (t) => {
    const { reasons, next } = await create(t);
    reasons.addChanges(changes([1, 'x']));
    const resync = await next({ resyncAt: 200, pauseEndsAt: 2_000 });
    assert.partialDeepStrictEqual(resync, { reason: 'resync', at: 200 });
  });

  it('name at most eight programs', async (t) => {
    const { reasons, next } = await create(t);
    reasons.addChanges(changes(...Array.from({ length: 99 }, (_, index) => [index, `p${index}`] as const)));
    assert.equal((await next())?.by?.length, 8);
  });
});

describe('the schedule', () => {
  const after = (inSync: boolean | undefined) => {
    const agent = new Knowledge();
    const family = { generation: 7 } as Partial<FamilyState> as FamilyState;
    agent.set({
      lastRound: { endedAt: 1_000, pauseEndsAt: 1_200, inSync },
      families: new Map([['IPv4', family]]),
      readAt: 500,
    });
    return scheduleOf(agent.state, 60_000);
  };
  for (const [worked, blocked, pause] of [
    [1, undefined, 10],
    [20, undefined, 200],
    [300, undefined, 2_000],
    [1, new Error('blocked'), 2_000],
  ] as const)
    it(`waits ${pause} ms after a round that ${blocked ? 'was blocked' : `worked for ${worked} ms`}`, () => {
      assert.equal(pauseAfter(worked, blocked), pause);
    });

  it('says what the last round has covered, and when to read the config files', () => {
    const { covered, resyncAt, pauseEndsAt, outOfSyncAt } = after(true);
    assert.deepEqual(
      [covered.get('IPv4'), resyncAt, pauseEndsAt, outOfSyncAt],
      [7, 60_500, 1_200, undefined],
    );
    assert.equal(after(undefined).outOfSyncAt, undefined);
    assert.equal(after(false).outOfSyncAt, 1_000);
  });
});

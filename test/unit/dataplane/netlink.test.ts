import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Netlink, noAnswer, type Requests, readIfChanged } from '../../../lib/dataplane/netlink.ts';
import { NetlinkError, type NetlinkFailure } from '../../../lib/netlink/error.ts';
import type { Events, TableChange, WatchedTable } from '../../../lib/netlink/watch.ts';

function create(open: () => Requests = () => ({}) as Requests) {
  /** The messages of failures, or `works`, as they are told. */
  const told: string[] = [];
  /** How often sockets were opened for requests. */
  let opened = 0;
  const sockets = {
    openRequests: () => {
      opened += 1;
      return open();
    },
    openWatch: () => assert.fail(),
  };
  const netlink = new Netlink(sockets, (failure) => told.push(failure?.message ?? 'works'));
  return { netlink, told, opened: () => opened };
}

function failing(failure: NetlinkFailure, message: string): () => Promise<never> {
  return () => Promise.reject(new NetlinkError(failure, message));
}

describe('netlink of a dataplane', () => {
  it('answers or fails, and tells its state at first and when that changes', async (context) => {
    let now = 0;
    context.mock.method(performance, 'now', () => now);
    const { netlink, told, opened } = create();
    const works = async () => 7;
    assert.equal(await netlink.use(works), 7);
    assert.equal(await netlink.use(works), 7);
    for (const message of ['one', 'one', 'two'])
      await assert.rejects(netlink.use(failing('failed', message)), { message });
    assert.deepEqual([told, netlink.failure?.message], [['works', 'one'], 'two']);
    // It works again after ten minutes without a failure.
    now = 30_000;
    await netlink.use(failing('failed', 'three')).catch(noAnswer);
    now += 599_999;
    assert.equal(await netlink.use(works), 7);
    assert.deepEqual(told, ['works', 'one']);
    now += 1;
    assert.equal(await netlink.use(works), 7);
    assert.deepEqual(told, ['works', 'one', 'works']);
    assert.equal(opened(), 1);
    assert.equal(netlink.isUnavailableForGood, false);
  });

  for (const failure of ['unsupported', 'denied'] as const) {
    it(`is not asked again once it is ${failure}, whatever comes later`, async (context) => {
      let now = 0;
      context.mock.method(performance, 'now', () => now);
      const { netlink, told } = create();
      const late = Promise.withResolvers<number>();
      const pending = netlink.use(() => late.promise);
      await netlink.use(failing(failure, 'never')).catch(noAnswer);
      assert.equal(netlink.isUnavailableForGood, true);
      await assert.rejects(
        netlink.use(() => assert.fail('it is asked')),
        { message: 'never' },
      );
      netlink.noteFailure(new NetlinkError('failed', 'a watch ends'));
      now = 600_000;
      late.resolve(7);
      await pending;
      assert.equal(netlink.isUnavailableForGood, true);
      assert.deepEqual(told, ['never']);
    });
  }

  it('works although others change too much for an answer, or it refuses a change', async () => {
    const { netlink, told } = create();
    await netlink.use(failing('interrupted', 'once more')).catch(noAnswer);
    await netlink.use(failing('changed', 'raced')).catch(noAnswer);
    const refused = new NetlinkError('denied', 'owned', 'EPERM', { request: 0, offset: undefined });
    await netlink.use(() => Promise.reject(refused)).catch(noAnswer);
    assert.deepEqual([told, netlink.isUnavailableForGood], [[], false]);
  });

  it('opens its socket again if that has failed', async () => {
    const { netlink, told, opened } = create(() => {
      throw new NetlinkError('failed', `no socket`);
    });
    await netlink.use(async () => 7).catch(noAnswer);
    await netlink.use(async () => 7).catch(noAnswer);
    assert.deepEqual([told, opened()], [['no socket'], 2]);
  });

  it('does not hide other errors', async () => {
    const { netlink, told } = create();
    const bug = () => Promise.reject(new TypeError('a bug'));
    await assert.rejects(netlink.use(bug), TypeError);
    assert.throws(() => netlink.noteFailure(new TypeError('a bug')), TypeError);
    assert.throws(() => noAnswer(new TypeError('a bug')), TypeError);
    assert.deepEqual(told, []);
  });
});

it('a reading is kept until the next generation, but not one in a generation in which another was blocked', async () => {
  let [generation, found] = [1, 'blocked'];
  const read = readIfChanged(
    async () => generation,
    async () => found,
    (text) => text === 'blocked',
  );
  const reads = async (text: string, at: number | undefined) =>
    assert.deepEqual(await read('IPv4'), { found: text, generation: at });
  await reads('blocked', 1);
  // A transaction that wakes the table up begins, and fails.
  found = 'awake';
  await reads('awake', undefined);
  found = 'blocked';
  await reads('blocked', undefined);
  [generation, found] = [2, 'awake'];
  await reads('awake', 2);
  found = 'not read';
  await reads('awake', 2);
});

it('a watch tells what other programs have changed, and that there may be more, but not what the agent has written', async () => {
  const own = { family: 'IPv4', table: 't' } as const;
  const alone = { family: 'IPv4', table: 'kube-proxy', chains: [] } as const;
  const from = (port: number, ...touched: readonly WatchedTable[]) => {
    return { id: 1, process: `p${port}`, port, touched };
  };
  const events: readonly Events<TableChange>[] = [
    { items: [from(7, own)], lost: false },
    { items: [from(8, own), from(7, own)], lost: false },
    { items: [from(7, own)], lost: true },
    // Nobody has changed the agent's rules.
    { items: [from(9, alone)], lost: false },
    { items: [from(9, alone, own)], lost: false },
  ];
  const openWatch = () => ({ [Symbol.asyncIterator]: () => turns(events), [Symbol.dispose]: () => {} });
  const netlink = new Netlink({ openRequests: () => ({ port: 7 }) as Requests, openWatch }, () => {});
  await netlink.use(async () => {});
  const told: unknown[] = [];
  using watch = netlink.watch([], ({ items, lost }) =>
    told.push([items.map(({ process }) => process), lost]),
  );
  for await (const _ of watch);
  assert.deepEqual(told, [
    [['p8'], false],
    [[], true],
    [[], true],
    [['p9'], true],
  ]);
});

async function* turns<Item>(items: readonly Item[]): AsyncGenerator<Item, void> {
  yield* items;
}

import assert from 'node:assert/strict';
import { syncBuiltinESMExports } from 'node:module';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import { KernelEvents } from '../../../lib/agent/kernel-events.ts';
import { Triggers } from '../../../lib/agent/triggers.ts';
import type { Family } from '../../../lib/cidr/address.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import type { Events, TableChange } from '../../../lib/netlink/watch.ts';

const CHEAP = { cost: 0, isRepair: false, inSync: true, generations: new Map() };
const REPAIR = { ...CHEAP, isRepair: true };

/** Changes of IPv4 rules, or of those of another family, in these generations by these programs. */
function changes(
  ...generations: readonly (readonly [id: number, process: string, family?: Family])[]
): Events<TableChange> {
  const items = generations.map(([id, process, family = 'IPv4']) => {
    return { id, process, port: 1, touched: [{ family, table: 'nat', kind: 'rules' } as const] };
  });
  return { items, lost: false };
}

/** Events with a clock that `at` sets. */
function create({ mock }: TestContext, iptables?: { readonly mode: 'nft'; readonly suffix: string }) {
  let now = 0;
  mock.restoreAll();
  mock.method(performance, 'now', () => now);
  const events = new KernelEvents();
  events.attach({ iptables });
  return {
    events,
    at: (ms: number) => {
      now = ms;
    },
    /** A sync has covered the events up to these generations. */
    cover: (...generations: readonly (readonly [Family, number])[]) =>
      events.onSync({ ...CHEAP, generations: new Map(generations) }),
  };
}

describe('events of the kernel', () => {
  it('lead to a sync with the names of the programs, unless a sync has covered them', (context) => {
    const { events, cover, at } = create(context);
    assert.equal(events.isPending, false);
    cover(['IPv4', 6]);
    at(7);
    events.add(changes([5, 'first'], [6, 'second']));
    assert.equal(events.syncDueAt, undefined);
    events.add(changes([7, 'dockerd'], [9, 'dockerd']));
    assert.equal(events.syncDueAt, 50);
    assert.deepEqual(events.takeChanges(), { since: 7, by: ['dockerd'] });
    assert.equal(events.isPending, false);
  });

  it('are covered by the reading of their own family', (context) => {
    const { events, cover } = create(context);
    cover(['IPv4', 9], ['IPv6', 5]);
    events.add(changes([8, 'a'], [6, 'a', 'IPv6'], [9, 'a'], [9, 'b']));
    assert.deepEqual([events.isPending, events.takeChanges().by], [true, ['a']]);
    cover(['IPv4', 9]);
    events.add(changes([4, 'c', 'IPv6']));
    assert.equal(events.isPending, true);
  });

  it('lead to a sync if it is not known what the kernel holds, or events were lost', (context) => {
    const { events, cover } = create(context);
    cover(['IPv4', 9]);
    events.add({ items: [], lost: true });
    assert.deepEqual([events.isPending, events.takeChanges().by], [true, []]);
    cover();
    events.add(changes([1, 'x']));
    assert.deepEqual([events.isPending, events.takeChanges().by], [true, ['x']]);
  });

  it('are told apart also when generations begin again', (context) => {
    const { events, cover } = create(context);
    cover(['IPv4', 0xffff_ffff]);
    events.add(changes([0xffff_ffff, 'x']));
    assert.equal(events.isPending, false);
    events.add(changes([0, 'x']));
    assert.equal(events.isPending, true);
  });

  for (const [iptables, own] of [
    [{ mode: 'nft', suffix: '' }, ['iptables-restor', 'ip6tables-resto']],
    [{ mode: 'nft', suffix: '-nft' }, ['iptables-nft-re', 'ip6tables-nft-r']],
  ] as const) {
    it(`name other programs than ${own.join(' and ')}, if there are any`, (context) => {
      const { events } = create(context, iptables);
      const ownChanges = own.map((name, index) => [index + 1, name] as const);
      events.add(changes(...ownChanges, [9, 'dockerd']));
      assert.deepEqual(events.takeChanges().by, ['dockerd']);
      events.add(changes(...ownChanges));
      assert.deepEqual(events.takeChanges().by, own);
    });
  }

  it('name at most eight programs', (context) => {
    const { events } = create(context);
    events.add(changes(...Array.from({ length: 99 }, (_, index) => [index + 1, `p${index}`] as const)));
    assert.equal(events.takeChanges().by.length, 8);
  });

  for (const [cost, pause] of [
    [1, 50],
    [20, 800],
    [100, 2_000],
  ] as const) {
    it(`wait ${pause} ms after a sync that took ${cost} ms of CPU`, (context) => {
      const { events, at } = create(context);
      at(1_000);
      events.onSync({ ...CHEAP, cost });
      events.add(changes([1, 'x']));
      assert.equal(events.syncDueAt, 1_000 + pause);
    });
  }

  it('wait longer and longer after repairs in a row, at most two seconds, and less after a calm time', (context) => {
    const { events, at } = create(context);
    let now = 100_000;
    for (const [index, pause] of [50, 100, 200, 400, 800, 1_600, 2_000, 2_000].entries()) {
      at(now);
      events.onSync(REPAIR);
      events.add(changes([index + 1, 'x']));
      assert.deepEqual([events.repairsInRow, (events.syncDueAt ?? 0) - now], [index + 1, pause]);
      events.takeChanges();
      now += pause;
    }
    at(now + 10_000);
    events.onSync(REPAIR);
    assert.equal(events.repairsInRow, 1);
  });

  it('need not come after a sync that has not found the policy at its end', (context) => {
    const { events, at } = create(context);
    at(500);
    events.onSync({ ...REPAIR, inSync: false });
    assert.equal(events.syncDueAt, 550);
  });
});

/** A watch that tells what a test says. */
class FakeWatch implements AsyncIterable<unknown>, Disposable {
  isOpen = true;
  readonly #hear: (events: Events<TableChange>) => void;
  #waiting: Events<TableChange>[] = [];
  #error: Error | undefined;
  #resume = () => {};

  constructor(hear: (events: Events<TableChange>) => void) {
    this.#hear = hear;
  }

  tell(...generations: readonly (readonly [number, string])[]): void {
    this.#waiting.push(changes(...generations));
    this.#resume();
  }

  fail(error: Error): void {
    this.#error = error;
    this.#resume();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown, void> {
    while (this.isOpen) {
      if (this.#error !== undefined) throw this.#error;
      const told = this.#waiting.shift();
      if (told === undefined) {
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#resume = resolve;
        await promise;
        continue;
      }
      this.#hear(told);
      yield;
    }
  }

  [Symbol.dispose](): void {
    this.isOpen = false;
    this.#resume();
  }
}

const INTERVAL = 60_000;

/** A running watch, with timers that only `pass` moves. */
async function watching(context: TestContext) {
  const { mock } = context;
  mock.restoreAll();
  mock.timers.enable({ apis: ['setTimeout'] });
  // What modules have imported follows only now.
  syncBuiltinESMExports();
  context.after(() => {
    mock.timers.reset();
    syncBuiltinESMExports();
  });
  const watches: FakeWatch[] = [];
  const failures: unknown[] = [];
  const stop = new AbortController();
  const triggers = new Triggers('', INTERVAL, pino({ enabled: false }), stop.signal);
  const events = triggers.kernel;
  let isUnavailableForGood = false;
  const netlink = {
    watch(_: unknown, tell: (events: Events<TableChange>) => void) {
      const watch = new FakeWatch(tell);
      watches.push(watch);
      return watch;
    },
    noteFailure(error: unknown) {
      if (!(error instanceof NetlinkError)) throw error;
      failures.push(error);
      isUnavailableForGood = error.failure === 'denied';
    },
    get isUnavailableForGood() {
      return isUnavailableForGood;
    },
  };
  const ended = triggers.watchKernel(netlink, []);
  const pass = async (ms: number) => {
    mock.timers.tick(ms);
    for (let turns = 0; turns < 9; turns += 1) await turn();
  };
  await pass(0);
  return { watches, failures, stop, events, ended, pass };
}

describe('the watch of the kernel', () => {
  it('begins again an interval after it has failed, unless netlink does not work here', async (context) => {
    const { watches, failures, events, pass, ended } = await watching(context);
    events.takeChanges();
    watches[0]?.fail(new NetlinkError('failed', 'gone'));
    await pass(0);
    assert.deepEqual([failures.length, watches.length, watches[0]?.isOpen], [1, 1, false]);
    await pass(INTERVAL - 1);
    assert.equal(watches.length, 1);
    await pass(1);
    assert.deepEqual([watches.length, events.isPending], [2, true]);
    watches[1]?.fail(new NetlinkError('denied', 'not permitted'));
    await pass(INTERVAL);
    await ended;
    assert.equal(watches.length, 2);
  });

  const failed = new NetlinkError('failed', 'x');
  for (const [when, prepare] of [
    ['waits for an event', () => {}],
    ['leaves events in the kernel', (watch?: FakeWatch) => watch?.tell([1, 'nft'])],
    ['waits to begin again', (watch?: FakeWatch) => watch?.fail(failed)],
  ] as const) {
    it(`ends with the signal while it ${when}`, async (context) => {
      const { watches, stop, ended, pass } = await watching(context);
      prepare(watches[0]);
      await pass(0);
      stop.abort();
      await ended;
      assert.equal(watches[0]?.isOpen, false);
    });
  }
});

import assert from 'node:assert/strict';
import { syncBuiltinESMExports } from 'node:module';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import { Repairs, watchDrift } from '../../../lib/agent/drift.ts';
import type { Comparison, Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import type { Changes } from '../../../lib/netlink/watch.ts';

const INTERVAL = 60_000;

/** A watch that tells what a test says. */
class FakeWatch implements AsyncIterable<Changes>, Disposable {
  isOpen = true;
  #waiting: Changes[] = [];
  #error: Error | undefined;
  #wake = () => {};

  /** A change by each of these processes, all in one slice. */
  tell(...processes: readonly string[]): void {
    this.#waiting.push({ generations: processes.map((process, id) => ({ id, process })), lost: false });
    this.#wake();
  }

  lose(): void {
    this.#waiting.push({ generations: [], lost: true });
    this.#wake();
  }

  fail(error: Error): void {
    this.#error = error;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Changes, void> {
    while (this.isOpen) {
      if (this.#error !== undefined) throw this.#error;
      const changes = this.#waiting.shift();
      if (changes !== undefined) yield changes;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }

  [Symbol.dispose](): void {
    this.isOpen = false;
    this.#wake();
  }
}

interface Watched extends Disposable {
  /** Every watch that was opened; the last one is in use. */
  readonly watches: readonly FakeWatch[];
  readonly watch: FakeWatch;
  /** What the next comparisons of IPv4 find, or how many milliseconds they take; afterwards `same`. */
  readonly found: (Comparison | number)[];
  /** The families that were compared. */
  readonly looks: readonly string[];
  /** The wakes since the last call. */
  wakes(): readonly (readonly [string, readonly string[] | undefined])[];
  /** The agent has repaired its rules just now. */
  repair(...by: readonly string[]): void;
  readonly warnings: readonly string[];
  readonly failures: readonly unknown[];
  /** From now on netlink does not work here. */
  endNetlink(): void;
  /** Lets time pass. */
  pass(ms: number): Promise<void>;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

/** Watches the rules of nft, with a clock that only `pass` moves; `found` tells what the first looks find. */
function watching(context: TestContext, ...found: (Comparison | number)[]): Promise<Watched> {
  return watchingOf(undefined, context, found);
}

async function watchingOf(
  iptables: Dataplane['iptables'],
  context: TestContext,
  found: (Comparison | number)[] = [],
): Promise<Watched> {
  const { mock } = context;
  mock.timers.enable({ apis: ['setTimeout'] });
  // What modules have imported follows only now.
  syncBuiltinESMExports();
  context.after(() => {
    mock.timers.reset();
    syncBuiltinESMExports();
  });
  let now = 0;
  mock.method(performance, 'now', () => now);
  const watches: FakeWatch[] = [];
  const looks: string[] = [];
  const failures: unknown[] = [];
  let added: (readonly [string, readonly string[] | undefined])[] = [];
  const warnings: string[] = [];
  const log = pino({ base: null }, { write: (line: string) => warnings.push(JSON.parse(line).msg) });
  const repairs = new Repairs();
  const stop = new AbortController();
  let isOver = false;
  const ended = watchDrift({
    dataplane: {
      iptables,
      compare: async (family) => {
        looks.push(family);
        const one = family === 'IPv4' ? found.shift() : undefined;
        if (typeof one === 'number') now += one;
        return typeof one === 'string' ? one : 'same';
      },
    },
    netlink: {
      watch() {
        const watch = new FakeWatch();
        watches.push(watch);
        return watch;
      },
      fail(error) {
        if (!(error instanceof NetlinkError)) throw error;
        failures.push(error);
        isOver = error.failure === 'denied';
      },
      get isOver() {
        return isOver;
      },
    },
    families: ['IPv4', 'IPv6'],
    wakes: { interval: INTERVAL, add: (reason, by) => added.push([reason, by]) },
    repairs,
    signal: stop.signal,
  });
  const pass = async (ms: number) => {
    now += ms;
    // A pause of no time may follow.
    for (const step of [ms, 0, 0]) {
      mock.timers.tick(step);
      for (let turns = 0; turns < 5; turns += 1) await turn();
    }
  };
  await pass(0);
  return {
    watches,
    get watch() {
      const last = watches.at(-1);
      assert.ok(last !== undefined);
      return last;
    },
    found,
    looks,
    wakes: () => {
      const all = added;
      added = [];
      return all;
    },
    repair: (...by) => repairs.note(by, INTERVAL, log),
    warnings,
    failures,
    endNetlink: () => {
      isOver = true;
    },
    pass,
    stop,
    ended,
    [Symbol.dispose]: () => stop.abort(),
  };
}

/** The pause after a look. */
const SOON = 50;

/** Pauses that double, up to the interval. */
const PAUSES = Array.from({ length: 12 }, (_, index) => Math.min(SOON * 2 ** index, INTERVAL));

/** Lets a pause pass, after which there is a look at both families, not earlier. */
async function passExactly({ looks, pass }: Watched, pause: number): Promise<void> {
  const { length } = looks;
  await pass(pause - 1);
  assert.equal(looks.length, length, `a look before ${pause} ms`);
  await pass(1);
  assert.equal(looks.length, length + 2, `no look after ${pause} ms`);
}

describe('the watch for drift', () => {
  it('looks once without an event, at each family', async (context) => {
    using drift = await watching(context, 'changed');
    assert.deepEqual(drift.looks, ['IPv4', 'IPv6']);
    assert.deepEqual(drift.wakes(), [['drift', []]]);
    await drift.pass(INTERVAL);
    assert.equal(drift.looks.length, 2);
  });

  it('looks at each event, and wakes the agent only if its rules have changed, with the names of the programs', async (context) => {
    using drift = await watching(context);
    await drift.pass(SOON);
    drift.watch.tell('dockerd');
    await drift.pass(SOON);
    assert.deepEqual([drift.looks.length, drift.wakes()], [4, []]);
    drift.found.push('changed');
    drift.watch.tell('nft', 'libuv-worker', 'iptables', 'nft');
    await drift.pass(SOON);
    assert.deepEqual(drift.wakes(), [['drift', ['nft', 'iptables']]]);
  });

  it('makes one look of all that comes during the pause after a look, and forgets no name of it', async (context) => {
    using drift = await watching(context);
    await drift.pass(SOON);
    drift.watch.tell('first');
    await drift.pass(0);
    const before = drift.looks.length;
    drift.watch.tell('second', 'third');
    await drift.pass(1);
    assert.equal(drift.looks.length, before);
    drift.found.push('changed');
    await drift.pass(SOON);
    assert.equal(drift.looks.length, before + 2);
    assert.deepEqual(drift.wakes(), [['drift', ['second', 'third']]]);
  });

  it('looks again, later and later, as long as a comparison gives no answer, and keeps the names', async (context) => {
    using drift = await watching(context);
    await drift.pass(SOON);
    drift.found.push(...PAUSES.map(() => 'unknown' as const), 'changed');
    drift.watch.tell('first');
    await drift.pass(0);
    for (const pause of PAUSES) {
      assert.deepEqual(drift.wakes(), []);
      await passExactly(drift, pause);
    }
    assert.deepEqual(drift.wakes(), [['drift', ['first']]]);
  });

  it('looks at an event also while it waits to look again, with the names of both', async (context) => {
    using drift = await watching(context);
    await drift.pass(SOON);
    drift.found.push(...PAUSES.slice(1).map(() => 'unknown' as const), 'changed');
    drift.watch.tell('first');
    for (const pause of PAUSES.slice(0, -1)) await drift.pass(pause);
    assert.equal(drift.looks.length, 2 * PAUSES.length);
    drift.watch.tell('second');
    await drift.pass(SOON);
    assert.deepEqual(drift.wakes(), [['drift', ['first', 'second']]]);
  });

  it('ends if netlink does not work here', async (context) => {
    using drift = await watching(context, 'unknown', 'unknown', 'unknown');
    drift.endNetlink();
    await drift.pass(INTERVAL);
    await drift.ended;
    assert.equal(drift.looks.length, 2);
  });

  for (const [took, pause] of [
    [1, 50],
    [20, 800],
    [100, 2_000],
  ] as const) {
    it(`pauses ${pause} ms after a look of ${took} ms`, async (context) => {
      using drift = await watching(context);
      await drift.pass(SOON);
      drift.found.push(took);
      drift.watch.tell('first');
      await drift.pass(0);
      drift.watch.tell('second');
      await passExactly(drift, pause);
    });
  }

  it('looks if events were lost', async (context) => {
    using drift = await watching(context);
    await drift.pass(SOON);
    drift.found.push('changed');
    drift.watch.lose();
    await drift.pass(SOON);
    assert.deepEqual(drift.wakes(), [['drift', []]]);
  });

  it('lets the agent read back what it has written, and looks again until that is done', async (context) => {
    using drift = await watching(context, 'unproven', 'unproven', 'changed');
    assert.deepEqual(drift.wakes(), [['check', []]]);
    await passExactly(drift, SOON);
    assert.deepEqual(drift.wakes(), [['check', []]]);
    await passExactly(drift, 2 * SOON);
    assert.deepEqual(drift.wakes(), [['drift', []]]);
    const looks = drift.looks.length;
    await drift.pass(INTERVAL);
    assert.equal(drift.looks.length, looks);
  });

  for (const [iptables, own] of [
    [undefined, ['nft']],
    [{ mode: 'nft', suffix: '-nft' }, ['iptables-nft-re', 'ip6tables-nft-r']],
  ] as const) {
    it(`names other programs than ${own.join(' and ')} at a check, if there are any`, async (context) => {
      using drift = await watchingOf(iptables, context);
      for (const [by, told] of [
        [['libuv-worker', ...own, 'dockerd'], ['dockerd']],
        [[...own, 'libuv-worker'], own],
      ] as const) {
        await drift.pass(SOON);
        drift.found.push('unproven');
        drift.watch.tell(...by);
        await drift.pass(SOON);
        assert.deepEqual(drift.wakes(), [['check', told]]);
      }
    });
  }

  it('looks later and later after repairs in a row, at most an interval later, and warns once', async (context) => {
    using drift = await watching(context);
    await drift.pass(SOON);
    for (const pause of PAUSES) {
      drift.found.push('changed');
      drift.watch.tell('nft');
      await drift.pass(0);
      assert.deepEqual(drift.wakes(), [['drift', ['nft']]]);
      drift.repair('nft');
      drift.watch.tell('nft');
      await passExactly(drift, pause);
      await drift.pass(SOON);
    }
    assert.equal(drift.warnings.length, 1);
    assert.match(drift.warnings.join(), /^nft changes the agent's rules again and again/);
    // After a calm time, it looks soon again.
    await drift.pass(2 * INTERVAL + 1);
    drift.repair('nft');
    drift.watch.tell('nft');
    await passExactly(drift, SOON);
  });

  it('begins again an interval after the watch has failed, unless netlink does not work here', async (context) => {
    using drift = await watching(context);
    await drift.pass(SOON);
    drift.watch.fail(new NetlinkError('failed', 'gone'));
    await drift.pass(0);
    assert.deepEqual([drift.failures.length, drift.watches.length, drift.watch.isOpen], [1, 1, false]);
    await drift.pass(INTERVAL - 1);
    assert.equal(drift.watches.length, 1);
    drift.found.push('changed');
    await drift.pass(1);
    assert.equal(drift.watches.length, 2);
    assert.deepEqual(drift.wakes(), [['drift', []]]);
    await drift.pass(SOON);
    drift.watch.fail(new NetlinkError('denied', 'not permitted'));
    await drift.pass(0);
    await drift.pass(INTERVAL);
    await drift.ended;
    assert.equal(drift.watches.length, 2);
  });

  it('fails with every other error', async (context) => {
    using drift = await watching(context);
    await drift.pass(SOON);
    const failed = assert.rejects(drift.ended, TypeError);
    drift.watch.fail(new TypeError('a bug'));
    await failed;
  });

  for (const [when, prepare] of [
    ['it waits for an event', (drift: Watched) => drift.pass(SOON)],
    ['it pauses', () => undefined],
    [
      'it waits after a repair',
      async (drift: Watched) => {
        await drift.pass(SOON);
        drift.repair('nft');
        drift.watch.tell('nft');
        await drift.pass(0);
      },
    ],
    [
      'it waits to begin again',
      async (drift: Watched) => {
        await drift.pass(SOON);
        drift.watch.fail(new NetlinkError('failed', 'gone'));
        await drift.pass(0);
      },
    ],
  ] as const) {
    it(`ends with the signal while ${when}`, async (context) => {
      using drift = await watching(context);
      await prepare(drift);
      drift.stop.abort();
      await drift.ended;
      assert.equal(drift.watch.isOpen, false);
      assert.equal(drift.looks.length, 2);
    });
  }
});

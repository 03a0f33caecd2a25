import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { Netlink, noAnswer, type Requests } from '../../../lib/dataplane/netlink.ts';
import { NetlinkError, type NetlinkFailure } from '../../../lib/netlink/error.ts';
import type { TableChange, Touch } from '../../../lib/netlink/watch.ts';

interface Fake {
  readonly netlink: Netlink;
  /** The messages of failures, or `works`, as they are told. */
  readonly told: readonly string[];
  /** How often sockets were opened for requests. */
  opened(): number;
}

function create(open: () => Requests = () => ({}) as Requests): Fake {
  const told: string[] = [];
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

describe('what other programs have touched', () => {
  const set = { family: 'IPv4', table: 'ip-masq-agent', kind: 'elements', set: 'not-masqueraded' } as const;
  const rules = { ...set, kind: 'rules', set: undefined } as const;
  const nothing = { rules: false, elements: false };
  /** Netlink whose watch tells these changes at the next reading. */
  const watching = () => {
    const waiting: TableChange[] = [];
    const told: unknown[] = [];
    const failures: unknown[] = [];
    let lost = false;
    let broken: Error | undefined;
    const watch = {
      drain: () => {
        if (broken !== undefined) throw broken;
        const events = { items: waiting.splice(0), lost };
        lost = false;
        return events;
      },
      async *[Symbol.asyncIterator]() {},
      [Symbol.dispose]: () => {},
    };
    const requests: { port: number | undefined } = { port: 7 };
    const sockets = { openRequests: () => requests as Requests, openWatch: () => watch };
    const netlink = new Netlink(sockets, (failure) => failures.push(failure?.message));
    const before = netlink.takeTouched('IPv4');
    const opened = netlink.watch([], (events) => told.push(events.items.map(({ process }) => process)));
    const change = (port: number, ...touched: readonly Touch[]) =>
      waiting.push({ id: 1, process: `p${port}`, port, touched });
    const lose = () => {
      lost = true;
    };
    const fail = (error: Error) => {
      broken = error;
    };
    return { netlink, requests, change, lose, fail, failures, told, opened, before };
  };

  it('is unknown without a watch, at its beginning, and after lost events; then only what is new', () => {
    const { netlink, change, lose, told, opened, before } = watching();
    assert.deepEqual([before, netlink.takeTouched('IPv4')], ['unknown', 'unknown']);
    assert.deepEqual(netlink.takeTouched('IPv4'), nothing);
    change(1, set);
    assert.deepEqual(netlink.takeTouched('IPv4'), { rules: true, elements: true });
    assert.deepEqual(netlink.takeTouched('IPv4'), nothing);
    change(2, rules);
    assert.deepEqual(netlink.takeTouched('IPv4'), { rules: true, elements: false });
    // Of a set or table that was made again.
    change(3, { ...rules, kind: 'objects' });
    assert.deepEqual(netlink.takeTouched('IPv4'), { rules: true, elements: true });
    lose();
    assert.equal(netlink.takeTouched('IPv4'), 'unknown');
    assert.deepEqual(told, [['p1'], ['p2'], ['p3'], []]);
    opened[Symbol.dispose]();
    assert.equal(netlink.takeTouched('IPv4'), 'unknown');
  });

  it('is not what the agent itself has written, and is kept for each family until it is asked for', async () => {
    const { netlink, change, told } = watching();
    for (const family of FAMILIES) netlink.takeTouched(family);
    await netlink.use(async () => {});
    change(7, set);
    assert.deepEqual(netlink.takeTouched('IPv4'), nothing);
    change(8, { ...rules, family: 'IPv6' });
    assert.deepEqual(netlink.takeTouched('IPv4'), nothing);
    assert.deepEqual(netlink.takeTouched('IPv6'), { rules: true, elements: false });
    assert.deepEqual(told, [['p8']]);
  });

  it('is unknown from a failure of the watch on, which ends with it', () => {
    const { netlink, fail, failures } = watching();
    netlink.takeTouched('IPv4');
    fail(new NetlinkError('failed', 'broken'));
    assert.equal(netlink.takeTouched('IPv4'), 'unknown');
    fail(new TypeError('a bug'));
    assert.equal(netlink.takeTouched('IPv4'), 'unknown');
    assert.deepEqual(failures, ['broken']);
  });

  it('is what another program writes with a port that the agent has had, but not what waits from that time', async () => {
    const { netlink, change, requests } = watching();
    netlink.takeTouched('IPv4');
    await netlink.use(async () => {});
    change(7, rules);
    requests.port = undefined;
    assert.deepEqual(netlink.takeTouched('IPv4'), nothing);
    change(7, rules);
    assert.deepEqual(netlink.takeTouched('IPv4'), { rules: true, elements: false });
  });
});

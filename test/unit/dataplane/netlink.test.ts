import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Netlink, type Requests } from '../../../lib/dataplane/netlink.ts';
import { NetlinkError, type NetlinkFailure } from '../../../lib/netlink/error.ts';

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

/** Opens sockets over which the generation is told. */
function answering(): Requests {
  return { generation: async () => ({ id: 1, process: '' }) } as Partial<Requests> as Requests;
}

function failing(failure: NetlinkFailure, message: string): () => Promise<never> {
  return () => Promise.reject(new NetlinkError(failure, message));
}

describe('netlink of a dataplane', () => {
  it('answers, or gives no answer, and tells its state at first and when that changes', async (context) => {
    let now = 0;
    context.mock.method(performance, 'now', () => now);
    const { netlink, told, opened } = create();
    const works = async () => 7;
    assert.equal(await netlink.ask(works), 7);
    assert.equal(await netlink.ask(works), 7);
    for (const message of ['one', 'one', 'two'])
      assert.equal(await netlink.ask(failing('failed', message)), undefined);
    assert.deepEqual(told, ['works', 'one']);
    // It works again after ten minutes without a failure.
    now = 30_000;
    await netlink.ask(failing('failed', 'three'));
    now += 599_999;
    assert.equal(await netlink.ask(works), 7);
    assert.deepEqual(told, ['works', 'one']);
    now += 1;
    assert.equal(await netlink.ask(works), 7);
    assert.deepEqual(told, ['works', 'one', 'works']);
    assert.equal(opened(), 1);
    assert.equal(netlink.hasGivenUp, false);
  });

  for (const failure of ['unsupported', 'denied'] as const) {
    it(`is not asked again once it is ${failure}, whatever comes later`, async (context) => {
      let now = 0;
      context.mock.method(performance, 'now', () => now);
      const { netlink, told } = create();
      const late = Promise.withResolvers<number>();
      const pending = netlink.ask(() => late.promise);
      await netlink.ask(failing(failure, 'never'));
      assert.equal(netlink.hasGivenUp, true);
      assert.equal(await netlink.ask(() => assert.fail('it is asked')), undefined);
      netlink.noteFailure(new NetlinkError('failed', 'a watch ends'));
      now = 600_000;
      late.resolve(7);
      await pending;
      assert.equal(netlink.hasGivenUp, true);
      assert.deepEqual(told, ['never']);
    });
  }

  it('works although others change too much for an answer', async () => {
    const { netlink, told } = create();
    assert.equal(await netlink.ask(failing('interrupted', 'once more')), undefined);
    assert.deepEqual(told, []);
  });

  it('opens its socket again if that has failed', async () => {
    const { netlink, told, opened } = create(() => {
      throw new NetlinkError('failed', `no socket`);
    });
    await netlink.ask(async () => 7);
    await netlink.ask(async () => 7);
    assert.deepEqual([told, opened()], [['no socket'], 2]);
  });

  it('returns the failure of a change, and tells nobody', async () => {
    const { netlink, told } = create(answering);
    const failure = await netlink.change(failing('denied', 'full'));
    assert.ok(failure instanceof NetlinkError && failure.failure === 'denied');
    assert.deepEqual([told, netlink.hasGivenUp], [[], false]);
  });

  it('does not hide other errors', async () => {
    const { netlink, told } = create(answering);
    const bug = () => Promise.reject(new TypeError('a bug'));
    await assert.rejects(netlink.ask(bug), TypeError);
    await assert.rejects(netlink.change(bug), TypeError);
    assert.throws(() => netlink.noteFailure(new TypeError('a bug')), TypeError);
    assert.deepEqual(told, []);
  });
});

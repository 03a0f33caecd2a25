import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { KernelEvents } from '../../../lib/agent/kernel-events.ts';
import type { Family } from '../../../lib/cidr/address.ts';
import type { Events, TableChange } from '../../../lib/netlink/watch.ts';

const SYNC = { duration: 0, inSync: true, generations: new Map() };

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
  events.setOwnTools(iptables);
  return {
    events,
    at: (ms: number) => {
      now = ms;
    },
    /** A sync has covered the events up to these generations. */
    cover: (...generations: readonly (readonly [Family, number])[]) =>
      events.onSync({ ...SYNC, generations: new Map(generations) }),
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
    assert.equal(events.syncDueAt, 57);
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

  for (const [duration, pause] of [
    [1, 50],
    [20, 200],
    [300, 2_000],
  ] as const) {
    it(`wait ${pause} ms after a sync that took ${duration} ms`, (context) => {
      const { events, at } = create(context);
      at(1_000);
      events.onSync({ ...SYNC, duration });
      events.add(changes([1, 'x']));
      assert.equal(events.syncDueAt, 1_000 + pause);
    });
  }

  it('need not come after a sync that has not found the policy at its end', (context) => {
    const { events, at } = create(context);
    at(500);
    events.onSync({ ...SYNC, inSync: false });
    assert.equal(events.syncDueAt, 550);
  });
});

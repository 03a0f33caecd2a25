import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { leftoverRemoval, removeLeftovers } from '../../../lib/agent/leftovers.ts';
import { type FamilyState, Knowledge } from '../../../lib/agent/state.ts';
import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { openNftables } from '../../../lib/dataplane/nftables/nftables.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { capturedLog } from '../../lab/log.ts';
import { fakeNetlink, hostWith } from '../dataplane/support.ts';

const RULES = { chain: 'X', randomFully: true, toPorts: [] } as const;
const OPTIONS = { ...RULES, backend: 'iptables', mode: 'nft', families: ['IPv4'] } as const;

/** Requests to a kernel with a table of the agent. */
const TABLE_THERE = {
  generation: async () => ({ id: 1, process: '' }),
  chain: async () => undefined,
  chains: async () => [],
  sets: async () => [],
  rules: async () => [],
  table: async ({ table }: { readonly table: string }) =>
    table === 'ip-masq-agent' ? { flags: 0, use: 0, handle: 1, comment: 'ip-masq-agent: x' } : undefined,
};

it('the removal of leftovers ends without an error if the agent stops while it waits to try again', async () => {
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const netlink = fakeNetlink({
    ...TABLE_THERE,
    // The table changes in between at each attempt, and the agent is stopped in the pause after the first one.
    commit: async () => {
      setImmediate(() => stop.abort());
      throw new NetlinkError('changed', 'gone', 'ENOENT', { request: 0, offset: undefined });
    },
  });
  const host = { ...hostWith({}), netlink };
  const options = {
    dataplane: OPTIONS,
    host,
    agent: new Knowledge(),
    notices: new Notices(log),
    signal: stop.signal,
  };
  const failure = await removeLeftovers(options);
  assert.deepEqual([failure, lines], [undefined, []]);
  assert.equal(stop.signal.aborted, true);
});

it('leftovers go only after a round that has found the rules of the dataplane in use in the kernel', async () => {
  let commits = 0;
  const netlink = fakeNetlink({
    ...TABLE_THERE,
    commit: async () => {
      commits += 1;
    },
  });
  const host = { ...hostWith({}), netlink };
  const agent = new Knowledge();
  const notices = new Notices(capturedLog().log);
  const { signal } = new AbortController();
  const ask = leftoverRemoval({ dataplane: OPTIONS, host, agent, notices, signal });
  const isIdle = async () => {
    for (let turn = 0; turn < 50; turn += 1) await immediate();
  };
  const families = new Map([['IPv4', {} as Partial<FamilyState> as FamilyState]] as const);
  agent.set({ families, dataplane: openNftables(OPTIONS, host) });
  // Two rounds in sync, then one that has chosen another dataplane and does not hold its rules yet.
  ask();
  ask();
  agent.set({ dataplane: { name: 'iptables' } as Partial<Dataplane> as Dataplane });
  await isIdle();
  assert.equal(commits, 0);
  // The second request comes while the first one is carried out.
  ask();
  ask();
  await isIdle();
  assert.equal(commits, 2, 'once for each family');
});

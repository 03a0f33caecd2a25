import assert from 'node:assert/strict';
import { it } from 'node:test';
import { removeLeftovers } from '../../../lib/agent/leftovers.ts';
import { Knowledge } from '../../../lib/agent/state.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { capturedLog } from '../../lab/log.ts';
import { fakeNetlink, hostWith } from '../dataplane/support.ts';

it('the removal of leftovers ends without an error if the agent stops while it waits to try again', async () => {
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const netlink = fakeNetlink({
    generation: async () => ({ id: 1, process: '' }),
    chain: async () => undefined,
    chains: async () => [],
    sets: async () => [],
    rules: async () => [],
    table: async ({ table }) =>
      table === 'ip-masq-agent' ? { flags: 0, use: 0, handle: 1, comment: 'ip-masq-agent: x' } : undefined,
    // The table changes in between at each attempt, and the agent is stopped in the pause after the first one.
    commit: async () => {
      setImmediate(() => stop.abort());
      throw new NetlinkError('changed', 'gone', 'ENOENT', { request: 0, offset: undefined });
    },
  });
  const host = { ...hostWith({}), netlink };
  const rules = { chain: 'X', randomFully: true, toPorts: [] } as const;
  const dataplane = { ...rules, backend: 'iptables', mode: 'nft', families: ['IPv4'] } as const;
  const options = { dataplane, host, agent: new Knowledge(), notices: new Notices(log), signal: stop.signal };
  const failure = await removeLeftovers(options);
  assert.deepEqual([failure, lines], [undefined, []]);
  assert.equal(stop.signal.aborted, true);
});

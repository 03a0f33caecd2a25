import assert from 'node:assert/strict';
import { it } from 'node:test';
import { NetlinkSocket } from '../../../lib/netlink/socket.ts';
import { openChangeWatch } from '../../../lib/netlink/watch.ts';

it('a watch gives other events their turn while another process floods its socket', async ({ mock }) => {
  let reads = 0;
  mock.method(NetlinkSocket.prototype, 'subscribe', () => {});
  mock.method(NetlinkSocket.prototype, 'receive', () => {
    reads += 1;
    return reads < 10_000 ? Buffer.alloc(0) : undefined;
  });
  using watch = openChangeWatch([]);
  setImmediate(() => watch[Symbol.dispose]());
  assert.equal((await watch[Symbol.asyncIterator]().next()).done, true);
  assert.ok(reads < 10_000, `${reads} reads`);
});

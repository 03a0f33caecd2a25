import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { it } from 'node:test';
import { listenAt, peerOf } from '../../../lib/agent/unix-socket.ts';

it('a name is listened at once, and the kernel says who has the other end of a Unix socket, to both ends', async () => {
  const path = `\0ip-masq-agent-test-${process.pid}`;
  const server = createServer().listen({ fd: listenAt(path) });
  assert.throws(() => listenAt(path), { code: 'EADDRINUSE' });
  await once(server, 'listening');
  const client = connect(path);
  const [[accepted]] = (await Promise.all([once(server, 'connection'), once(client, 'connect')])) as [
    [Socket],
    unknown,
  ];
  const self = { pid: process.pid, uid: process.getuid?.() };
  assert.deepEqual([peerOf(client), peerOf(accepted)], [self, self]);
  client.destroy();
  assert.throws(() => peerOf(client), /closed/);
  accepted.destroy();
  server.close();
});

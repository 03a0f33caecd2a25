/** Sends back all that comes over a TCP connection, and knows from where the connections came. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { answer } from './helper.ts';
import { STREAM_PORT } from './stream.ts';
import type { Seen } from './volley.ts';

const connections: Seen[] = [];

async function listen(host: string): Promise<void> {
  const server = createServer((socket) => {
    connections.push({ address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 });
    socket.on('error', () => {}); // the other side notices too, and tells
    socket.pipe(socket);
  });
  server.listen({ port: STREAM_PORT, host, ipv6Only: true });
  await once(server, 'listening');
}

const ready = Promise.all([listen('0.0.0.0'), listen('::')]);

/** Answers every question with all connections so far. */
answer<true, readonly Seen[]>(async () => {
  await ready;
  return connections;
});

/**
 * Runs outside: tells whoever sends it a UDP packet from which address and port the packet came.
 * One socket per destination, because a reply must come from the very address that was asked.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { answer } from './helper.ts';

/** Where the echo shall listen. */
export interface Listen {
  readonly address: string;
  readonly port: number;
}

answer<Listen, true>(async ({ address, port }) => {
  const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
  socket.on('message', (_, from) => {
    socket.send(JSON.stringify({ address: from.address, port: from.port }), from.port, from.address);
  });
  socket.bind(port, address);
  await once(socket, 'listening');
  socket.on('error', () => {}); // the sender went away: its own affair
  return true;
});

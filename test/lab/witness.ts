/**
 * Notes from which address and port each packet and each connection comes, whatever local address it is sent to.
 * Nothing goes back over the network: what was seen is told to whoever asks, by another way.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { answer } from './helper.ts';
import { HAS_IPV6 } from './ipv6.ts';
import { PORT, type Seen } from './volley.ts';

/** Asks for what has been seen of a volley. */
export interface Watch {
  readonly volley: number;
  /** How many packets there are to see: the answer comes as soon as all are, or when patience ends. */
  readonly count: number;
  readonly patienceMs: number;
}

/** The number of a packet in its volley, and what was seen of it. */
export type Sighting = readonly [index: number, seen: Seen];

const POLL_MS = 2;

const volleys = new Map<number, Map<number, Seen>>();

function sightings(volley: number): Map<number, Seen> {
  const known = volleys.get(volley) ?? new Map<number, Seen>();
  volleys.set(volley, known);
  return known;
}

/** The payload of a packet: the number of the volley and its own. */
function note(payload: Buffer, seen: Seen): void {
  const [volley = -1, index = -1] = String(payload).split(' ').map(Number);
  sightings(volley).set(index, seen);
}

async function listenUdp(type: 'udp4' | 'udp6'): Promise<void> {
  const socket = createSocket({ type, ipv6Only: type === 'udp6' });
  socket.on('message', (payload, { address, port }) => note(payload, { address, port }));
  socket.bind(PORT);
  await once(socket, 'listening');
}

async function listenTcp(host: string): Promise<void> {
  const server = createServer((socket) => {
    const { remoteAddress: address = '', remotePort: port = 0 } = socket;
    socket.once('data', (payload) => {
      note(payload, { address, port });
      socket.end();
    });
    socket.on('error', () => {}); // the sender went away: its own affair
  });
  server.listen({ port: PORT, host, ipv6Only: true, backlog: 1024 });
  await once(server, 'listening');
}

const ready = Promise.all([
  ...[listenUdp('udp4'), listenTcp('0.0.0.0')],
  ...(HAS_IPV6 ? [listenUdp('udp6'), listenTcp('::')] : []),
]);

answer<Watch, readonly Sighting[]>(async ({ volley, count, patienceMs }) => {
  await ready;
  const seen = sightings(volley);
  const deadline = performance.now() + patienceMs;
  while (seen.size < count && performance.now() < deadline) await delay(POLL_MS);
  return [...seen];
});

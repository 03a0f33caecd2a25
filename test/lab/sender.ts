/** Sends volleys: one packet, or one connection, to each of many destinations. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, isIPv6 } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { answer } from './helper.ts';
import { PORT, type Seen } from './volley.ts';

/** A packet is known by its volley and its number in it. */
export interface Salvo {
  readonly volley: number;
  readonly protocol: 'udp' | 'tcp';
  readonly packets: readonly { readonly index: number; readonly destination: string }[];
  /** The source that the packets leave with; any where undefined. All are of its family then. */
  readonly source: Seen | undefined;
}

/** As many connections at a time as fit into a listener's queue, and into few file descriptors. */
const AT_ONCE = 100;
const TIMEOUT_MS = 30_000;
/** Below the ephemeral ports (ip_local_port_range), which others may hold. */
const SOURCE_PORTS = { first: 10_000, last: 29_999 };
/** Longer than conntrack keeps a flow without an answer (nf_conntrack_udp_timeout). */
const FORGOTTEN_MS = 35_000;
const RETRY_MS = 100;

let port = SOURCE_PORTS.last;
/** When each port was last taken for a destination. */
const taken = new Map<string, number[]>();

/**
 * A port of its own for each volley: conntrack keeps the address translation of a flow that it has seen, whatever the rules say
 * meanwhile. So no port is used again for a destination before that flow is forgotten, and if all have been used, this waits.
 */
async function freePort(destinations: readonly string[]): Promise<number> {
  const uses = destinations.map((destination) => {
    const times = taken.get(destination) ?? [];
    taken.set(destination, times);
    return times;
  });
  for (;;) {
    const now = performance.now();
    for (let tries = SOURCE_PORTS.last - SOURCE_PORTS.first; tries >= 0; tries -= 1) {
      port = port === SOURCE_PORTS.last ? SOURCE_PORTS.first : port + 1;
      if (uses.some((times) => now - (times[port] ?? -Infinity) < FORGOTTEN_MS)) continue;
      for (const times of uses) times[port] = now;
      return port;
    }
    await delay(RETRY_MS);
  }
}

async function sendPackets({ volley, packets, source }: Salvo): Promise<void> {
  const inIPv6 = (packet: Salvo['packets'][number]) => isIPv6(packet.destination);
  for (const [type, own] of [
    ['udp4', packets.filter((packet) => !inIPv6(packet))],
    ['udp6', packets.filter(inIPv6)],
  ] as const) {
    if (own.length === 0) continue;
    const socket = createSocket(type);
    try {
      const free = source?.port ?? (await freePort(own.map(({ destination }) => destination)));
      socket.bind(free, source?.address);
      await once(socket, 'listening');
      const sent = own.map(({ index, destination }) =>
        sending(destination, (done) => socket.send(`${volley} ${index}`, PORT, destination, done)),
      );
      await Promise.all(sent);
    } finally {
      socket.close();
    }
  }
}

function sending(to: string, send: (done: (error: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    send((error) =>
      error === null ? resolve() : reject(new Error(`cannot send to ${to}: ${error.message}`)),
    );
  });
}

async function openConnections({ volley, packets, source }: Salvo): Promise<void> {
  const from = source === undefined ? {} : { localAddress: source.address, localPort: source.port };
  for (let start = 0; start < packets.length; start += AT_ONCE) {
    const some = packets.slice(start, start + AT_ONCE);
    await Promise.all(
      some.map(async ({ index, destination }) => {
        const socket = connect({ host: destination, port: PORT, ...from });
        socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('no answer')));
        socket.resume().write(`${volley} ${index}`);
        try {
          await once(socket, 'end');
        } catch (error) {
          throw new Error(
            `cannot connect to ${destination}: ${error instanceof Error ? error.message : error}`,
          );
        } finally {
          socket.destroy();
        }
      }),
    );
  }
}

answer<Salvo, true>(async (salvo) => {
  await (salvo.protocol === 'udp' ? sendPackets(salvo) : openConnections(salvo));
  return true;
});

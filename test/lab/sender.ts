/** Runs in the pod: sends a UDP packet and returns what the other side saw as its source. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { answer } from './helper.ts';
import type { Seen } from './network.ts';

/** Where to send. */
export interface Send {
  readonly address: string;
  readonly port: number;
}

const RESEND_MS = 250;
const TIMEOUT_MS = 3_000;
const PORTS = { first: 20_000, last: 60_000 };

let port = PORTS.first;

/**
 * A port of its own for each packet: conntrack keeps the address translation of a flow that it has seen,
 * whatever the rules say meanwhile.
 */
function nextPort(): number {
  port = port === PORTS.last ? PORTS.first : port + 1;
  return port;
}

async function ask(socket: Socket): Promise<Seen> {
  const send = () => socket.send('?');
  const resend = setInterval(send, RESEND_MS);
  send();
  try {
    const [message]: Buffer[] = await once(socket, 'message', { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return JSON.parse(String(message));
  } finally {
    clearInterval(resend);
  }
}

answer<Send, Seen>(async ({ address, port }) => {
  const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
  try {
    socket.bind(nextPort());
    await once(socket, 'listening');
    socket.connect(port, address);
    await once(socket, 'connect');
    return await ask(socket);
  } catch (error) {
    throw new Error(`no answer from ${address}: ${error instanceof Error ? error.message : error}`);
  } finally {
    socket.close();
  }
});

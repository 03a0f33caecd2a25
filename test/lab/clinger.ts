/** Holds connections open, in the box that it is in, and never reads from them. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { answer } from './helper.ts';

/** Opens a connection for each text, which is all that it sends. */
export interface Cling {
  readonly port: number;
  readonly texts: readonly string[];
}

/** How many of all connections so far the other side has not closed. */
export interface Clung {
  readonly open: number;
}

const sockets: Socket[] = [];

answer<Cling, Clung>(async ({ port, texts }) => {
  await Promise.all(texts.map((text) => open(port, text)));
  return { open: sockets.filter(({ closed, readyState }) => !closed && readyState !== 'closed').length };
});

async function open(port: number, text: string): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' });
  sockets.push(socket.on('error', () => {}));
  await once(socket, 'connect');
  await new Promise<void>((resolve) => socket.write(text, () => resolve()));
}

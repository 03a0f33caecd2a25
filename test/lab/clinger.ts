/** Holds connections open, in the box that it is in, and never reads from them. One that is closed is opened anew at once, for ever. */
import { connect } from 'node:net';
import { answer } from './helper.ts';

/** Opens so many connections, and sends the text in each, which is all that it sends. */
export interface Cling {
  readonly port: number;
  readonly connections: number;
  readonly text: string;
}

answer<Cling, true>(async ({ port, connections, text }) => {
  for (let opened = 0; opened < connections; opened += 1) open(port, text);
  return true;
});

function open(port: number, text: string): void {
  const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {});
  socket.on('close', () => open(port, text)).resume();
  socket.write(text);
}

/** Opens TCP connections and keeps them open. */
import { connect } from 'node:net';
import { answer } from './helper.ts';
import { STREAM_PORT } from './stream.ts';

/** Opens so many, one after the other. */
export interface Opening {
  readonly destination: string;
  readonly connections: number;
}

/** A connection that is not there by then gets no port: the kernel drops its first packet, and all repetitions. */
const PATIENCE_MS = 20_000;

function open(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port: STREAM_PORT });
    const timer = setTimeout(() => {
      socket.destroy();
      resolve(false);
    }, PATIENCE_MS);
    socket.once('connect', () => {
      clearTimeout(timer);
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}

/** How many succeed, until the first that does not. */
answer<Opening, number>(async ({ destination, connections }) => {
  let opened = 0;
  while (opened < connections && (await open(destination))) opened += 1;
  return opened;
});

/** Holds connections open, in the box that it is in, and never reads from them. */
import { connect } from 'node:net';
import { answer } from './helper.ts';

/** Opens a connection for each text, which is all that it sends. */
export interface Cling {
  readonly port: number;
  readonly texts: readonly string[];
  /** Whether each connection that is closed is opened anew at once, for ever. */
  readonly again?: boolean;
}

answer<Cling, true>(async ({ port, texts, again = false }) => {
  await Promise.all(texts.map((text) => open(port, text, again)));
  return true;
});

async function open(port: number, text: string, again: boolean): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {});
  if (again) socket.on('close', () => open(port, text, again)).resume();
  await new Promise<void>((resolve) => socket.on('close', resolve).write(text, () => resolve()));
}

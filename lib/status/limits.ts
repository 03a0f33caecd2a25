import type { Server, Socket } from 'node:net';
import { maxOpenFiles } from './open-files.ts';

/** The limits on what anyone who reaches a port can cost. One connection is for one request. */
export const LIMITS = {
  /** Characters of a URL. The longest that the server knows is far shorter. */
  url: 512,
  /** Bytes of all headers of a request. A browser sends about 1 KiB. */
  headers: 8 * 1024,
  /** Milliseconds from the start of a connection until its answer is read. */
  connectionLifeMs: 10_000,
  /** Connections of a listener, so many that a probe can send its request before newer ones take its place. */
  connections: 256,
  /** Connections of a listener if the process may have few open files. */
  leastConnections: 16,
  /** Connections that are being answered, because each takes up to 100 KiB of the kernel's memory. */
  answers: 32,
  /** Connections that the kernel keeps until they are accepted. If there are more, a probe's packets are dropped. */
  backlog: 4_096,
  /** Milliseconds for which requests share an answer that costs more to make than to send. */
  sharedAnswerMs: 1_000,
} as const;

/**
 * Keeps the number and the life of a server's connections within the limits. A new connection always gets a place,
 * because it may be a probe: that of the oldest that has sent a part of a request, else of the oldest that has sent
 * nothing, else of the oldest that is being answered.
 *
 * @param onLate receives a connection that has sent no complete request at the end of its life
 * @returns what to call with the connection of each request; false if it is not the first one
 */
export function limitConnections(server: Server, lifeMs: number, onLate: (socket: Socket) => void) {
  const waiting = new Set<Socket>();
  const answering = new Set<Socket>();
  const forget = (socket: Socket) => waiting.delete(socket) || answering.delete(socket);
  const drop = ([socket]: Iterable<Socket>) => socket && forget(socket.destroy());
  server.on('connection', (socket: Socket) => {
    if (isFull(waiting.size + answering.size)) {
      const partial = [...waiting].find(({ bytesRead }) => bytesRead > 0);
      if (partial !== undefined) drop([partial]);
      else drop(waiting.size > 0 ? waiting : answering);
    }
    waiting.add(socket);
    const late = setTimeout(() => (waiting.has(socket) ? onLate(socket) : socket.destroy()), lifeMs).unref();
    socket.on('close', () => {
      clearTimeout(late);
      forget(socket);
    });
  });
  return (socket: Socket) => {
    if (!waiting.delete(socket)) return false;
    if (answering.size >= LIMITS.answers) drop(answering);
    answering.add(socket);
    return true;
  };
}

/** Whether there is no place for another connection: some of the open files are for the tools that the agent runs. */
function isFull(count: number): boolean {
  if (count < LIMITS.leastConnections || count >= LIMITS.connections) return count >= LIMITS.connections;
  // Also if the limit cannot be read because there are none.
  return !(count < maxOpenFiles() / 4);
}

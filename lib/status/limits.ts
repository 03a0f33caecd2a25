import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** The limits on what anyone who reaches the port can cost. */
export const LIMITS = {
  /** Characters of a URL. The longest that the server knows is far shorter. */
  url: 512,
  /** Bytes of all headers of a request. A browser sends about 1 KiB. */
  headers: 8 * 1024,
  /** Connections of a listener: enough for a scrape, the probes and a few people, and few open files and buffers. */
  connections: 32,
  /** Milliseconds from the start of a connection until its answer is read. */
  life: 10_000,
  /** Milliseconds for which requests share one answer, if making it costs more than sending it. */
  answer: 1_000,
} as const;

/**
 * Keeps the number and the life of a server's connections within the limits. A new connection always gets a place,
 * because it may be a probe. It is the place of the oldest that has sent a part of a request, else of the oldest that
 * has sent nothing, else of the oldest that is being answered.
 *
 * @param onLate receives a connection that has sent no complete request at the end of its life
 * @returns what to call with the connection of a request; false after its first one
 */
export function limitConnections(
  server: Server,
  lifeMs: number,
  onLate: (socket: Socket) => void,
): (socket: Socket) => boolean {
  const waiting = new Set<Socket>();
  const answered = new Set<Socket>();
  const forget = (socket: Socket) => waiting.delete(socket) || answered.delete(socket);
  server.on('connection', (socket: Socket) => {
    if (waiting.size + answered.size >= LIMITS.connections) {
      const [victim] = [...waiting].filter(({ bytesRead }) => bytesRead > 0).concat(...waiting, ...answered);
      if (victim !== undefined) forget(victim.destroy());
    }
    waiting.add(socket);
    const late = setTimeout(() => (waiting.has(socket) ? onLate(socket) : socket.destroy()), lifeMs).unref();
    socket.on('close', () => {
      clearTimeout(late);
      forget(socket);
    });
  });
  return (socket) => {
    const isFirst = waiting.delete(socket);
    if (isFirst) answered.add(socket);
    return isFirst;
  };
}

import type { Server, Socket } from 'node:net';

/** The limits on what anyone who reaches a port can cost. */
export const LIMITS = {
  /** Characters of a URL. The longest that the server knows is far shorter. */
  url: 512,
  /** Bytes of all headers of a request. A browser sends about 1 KiB. */
  headers: 8 * 1024,
  /** Milliseconds until a request has come, or up to four times as long; and then for which nothing of its answer is read. */
  patienceMs: 10_000,
  /** Connections of a listener, so many that a probe can send its request before newer ones take its place. */
  connections: 256,
  /** Connections that the kernel keeps until they are accepted. If there are more, a probe's packets are dropped. */
  backlog: 4_096,
  /** Milliseconds for which requests share an answer that costs more to make than to send. */
  sharedAnswerMs: 1_000,
} as const;

/** Keeps the number of a server's connections. A new one always gets a place, because it may be a probe: that of the oldest. */
export function limitConnections(server: Server): void {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    const [oldest] = open;
    if (open.size >= LIMITS.connections && oldest !== undefined) open.delete(oldest.destroy());
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
}

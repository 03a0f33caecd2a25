/** More than are used between a change and its event; few, because a second agent in another container has similar ones. */
const MOST = 16;

/** The last ones, the latest at the end. */
const ports = new Set<number | undefined>();

/**
 * Notes the port from which this process, or a tool that it starts, makes changes. The first socket of a process has the process id
 * as its port.
 */
export function noteOwnPort(port: number | undefined): void {
  ports.delete(port);
  ports.add(port);
  const [oldest] = ports;
  if (ports.size > MOST) ports.delete(oldest);
}

/** Whether a change comes from this process or a tool of it. A process of another container may happen to have the same port. */
export function isOwnPort(port: number): boolean {
  return ports.has(port);
}

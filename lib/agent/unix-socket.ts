import type { Socket } from 'node:net';
import { kernelError } from '../netlink/error.ts';
import { native } from '../netlink/native.ts';

/** Who has the other end of a Unix socket, as the kernel says. */
interface Peer {
  /** Its process; 0 if this process cannot see it, as in another container. */
  readonly pid: number;
  readonly uid: number;
}

/** bits/socket.h and asm-generic/socket.h, for x86-64 and arm64. */
const AF_UNIX = 1;
const SOCK_STREAM_NONBLOCK_CLOEXEC = 1 | 0o4000 | 0o2000000;
/** Connections that wait to be accepted. */
const BACKLOG = 511;
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;

/** The size of `struct ucred`: pid, uid and gid, of 32 bits each (unix(7)). */
const UCRED_BYTES = 12;

/**
 * Listens at the name of an abstract Unix socket, which begins with a zero byte (unix(7)). Returns the descriptor.
 *
 * @throws {NetlinkError} with the code EADDRINUSE if a socket has the name
 */
export function listenAt(name: string): number {
  const { socket, bind, close, errno, func } = native();
  const listen = func('int listen(int, int)');
  const asked = `listen at ${name.replace('\0', '@')}`;
  const address = Buffer.concat([Buffer.from(Uint16Array.of(AF_UNIX).buffer), Buffer.from(name)]);
  const descriptor = socket(AF_UNIX, SOCK_STREAM_NONBLOCK_CLOEXEC, 0);
  if (descriptor < 0) throw kernelError(errno(), asked);
  if (bind(descriptor, address, address.length) === 0 && listen(descriptor, BACKLOG) === 0) return descriptor;
  const error = kernelError(errno(), asked);
  close(descriptor);
  throw error;
}

/** Any user of the node can connect very often. */
let getsockopt: ReturnType<ReturnType<typeof native>['func']> | undefined;

/**
 * The process that listened on, or connected to, the other end of a connected Unix socket, at that time (SO_PEERCRED in
 * unix(7)). No process can pretend to be another user.
 *
 * @throws {Error} if the kernel does not say it, or the native module cannot be loaded
 */
export function peerOf(socket: Socket): Peer {
  const [credentials, length] = [Buffer.alloc(UCRED_BYTES), Int32Array.of(UCRED_BYTES)];
  getsockopt ??= native().func('int getsockopt(int, int, int, void *, void *)');
  const result = getsockopt(descriptorOf(socket), SOL_SOCKET, SO_PEERCRED, credentials, length);
  if (result !== 0 || length[0] !== UCRED_BYTES) throw new Error('the kernel does not say who it is');
  return { pid: credentials.readInt32LE(), uid: credentials.readUInt32LE(4) };
}

/** The file descriptor. Node.js has no public name for it. */
function descriptorOf(socket: Socket): number {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } | null };
  if (typeof handle?.fd !== 'number' || handle.fd < 0) throw new Error('the connection is closed');
  return handle.fd;
}

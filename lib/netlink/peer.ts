import type { Socket } from 'node:net';
import { native } from './native.ts';

/** Who has the other end of a Unix socket, as the kernel says. */
interface Peer {
  /** Its process; 0 if this process cannot see it, as in another container. */
  readonly pid: number;
  readonly uid: number;
}

/** asm-generic/socket.h, for x86-64 and arm64. */
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;

/** The size of `struct ucred`: pid, uid and gid, of 32 bits each (unix(7)). */
const UCRED_BYTES = 12;

/**
 * The process that listened on, or connected to, the other end of a connected Unix socket, at that time (SO_PEERCRED in
 * unix(7)). No process can pretend to be another user.
 *
 * @throws {Error} if the kernel does not say it, or the native module cannot be loaded
 */
export function peerOf(socket: Socket): Peer {
  const [credentials, length] = [Buffer.alloc(UCRED_BYTES), Int32Array.of(UCRED_BYTES)];
  const result = native().getsockopt(descriptorOf(socket), SOL_SOCKET, SO_PEERCRED, credentials, length);
  if (result !== 0 || length[0] !== UCRED_BYTES) throw new Error('the kernel does not say who it is');
  return { pid: credentials.readInt32LE(), uid: credentials.readUInt32LE(4) };
}

/** The file descriptor. Node.js has no public name for it. */
function descriptorOf(socket: Socket): number {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } | null };
  if (typeof handle?.fd !== 'number' || handle.fd < 0) throw new Error('the connection is closed');
  return handle.fd;
}

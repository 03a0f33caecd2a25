import type { Socket } from 'node:net';
import { type CFunction, cFunction } from './native.ts';

/** Who has the other end of a Unix socket, as the kernel says. */
export interface Peer {
  /** Its process; 0 if this process cannot see it, as in another container. */
  readonly pid: number;
  readonly uid: number;
}

/** asm-generic/socket.h, for x86-64 and arm64. */
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;

/** The size of `struct ucred`: pid, uid and gid, of 32 bits each (unix(7)). */
const UCRED_BYTES = 12;

let getsockopt: CFunction | undefined;

/**
 * The process that listened on, or connected to, the other end of a connected Unix socket, at that time (SO_PEERCRED in
 * unix(7)). No process can pretend to be another user.
 *
 * @throws {Error} if the kernel does not say it, or the native module cannot be loaded
 */
export function peerOf(socket: Socket): Peer {
  getsockopt ??= cFunction('int getsockopt(int, int, int, void *, void *)');
  const credentials = new DataView(new ArrayBuffer(UCRED_BYTES));
  const length = Uint32Array.of(UCRED_BYTES);
  const bytes = (view: ArrayBufferView) => new Uint8Array(view.buffer);
  const result = getsockopt(descriptorOf(socket), SOL_SOCKET, SO_PEERCRED, bytes(credentials), bytes(length));
  if (result !== 0 || length[0] !== UCRED_BYTES) throw new Error('the kernel does not say who it is');
  return { pid: credentials.getInt32(0, true), uid: credentials.getUint32(4, true) };
}

/** The file descriptor. Node.js has no public name for it. */
function descriptorOf(socket: Socket): number {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } | null };
  if (typeof handle?.fd !== 'number' || handle.fd < 0) throw new Error('the connection is closed');
  return handle.fd;
}

import { kernelError, malformed, NetlinkError } from './error.ts';
import { native } from './native.ts';
import { noteOwnPort } from './own-ports.ts';

/** bits/socket.h, asm-generic/socket.h and linux/netlink.h, for x86-64 and arm64. */
const AF_NETLINK = 16;
/** Protocols of netlink. */
export const NETLINK_ROUTE = 0;
export const NETLINK_NETFILTER = 12;
const SOCK_RAW_NONBLOCK_CLOEXEC = 3 | 0o4000 | 0o2000000;
const SOL_SOCKET = 1;
const SO = { SNDBUF: 7, RCVBUF: 8, SNDBUFFORCE: 32, RCVBUFFORCE: 33 } as const;
const SOL_NETLINK = 270;
const NETLINK = { ADD_MEMBERSHIP: 1, NO_ENOBUFS: 5, CAP_ACK: 10, EXT_ACK: 11, GET_STRICT_CHK: 12 } as const;
const NFNLGRP_NFTABLES = 7;
const MSG_TRUNC = 0x20;
const EAGAIN = 11;

/** The size of `struct sockaddr_nl`: family, port (at byte 4) and groups. */
const ADDRESS_BYTES = 12;

/** The kernel sends at most 32 KiB at once. */
const received = Buffer.allocUnsafeSlow(65_536);
/** Who has sent it, and the size of that. */
const [sender, senderSize] = [Buffer.alloc(ADDRESS_BYTES), Int32Array.of(ADDRESS_BYTES)];

/** The limit for what is sent at once, some 260,000 ranges of IPv6. The kernel refuses more with EMSGSIZE. */
const MOST_SENT = 16 * 1024 * 1024;

/**
 * The limit for changes that wait to be read, some 28,000 elements in one transaction, or 10,000 transactions. What is lost is more
 * work than that: then everything may have changed, and 100,000 elements are read again. The kernel needs twice the bytes of a
 * datagram.
 */
const MOST_WAITING = 8 * 1024 * 1024;

/** A socket to the kernel (netlink(7)), by default to its netfilter. It never blocks the thread. */
export class NetlinkSocket implements Disposable {
  /** The kernel's name for the socket. */
  readonly port: number;
  /** -1 after it is closed: the kernel refuses that. */
  #descriptor: number;
  #endWait: (() => void) | undefined;

  /**
   * @param setUp what else must succeed: otherwise the socket is closed
   * @throws {NetlinkError}
   */
  constructor(protocol = NETLINK_NETFILTER, setUp: (socket: NetlinkSocket) => void = () => {}) {
    const { socket, bind, getsockname } = native();
    const asked = 'open a netlink socket';
    // The kernel itself asks for no permission.
    const refusable = `${asked}, which seccomp, SELinux or the runtime of the container may refuse`;
    this.#descriptor = check(socket(AF_NETLINK, SOCK_RAW_NONBLOCK_CLOEXEC, protocol), refusable);
    try {
      const address = Buffer.alloc(ADDRESS_BYTES);
      address.writeUInt16LE(AF_NETLINK);
      check(bind(this.#descriptor, address, ADDRESS_BYTES), asked);
      check(getsockname(this.#descriptor, address, Int32Array.of(ADDRESS_BYTES)), asked);
      this.port = address.readUInt32LE(4);
      // Errors come without the request, which may be larger than what is received at once.
      check(this.#set(SOL_NETLINK, NETLINK.CAP_ACK, Int32Array.of(1)), asked);
      // What exactly is refused (Linux 4.12).
      check(this.#set(SOL_NETLINK, NETLINK.EXT_ACK, Int32Array.of(1)), asked);
      setUp(this);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Sends a short request that only reads: the kernel answers it before this returns. */
  send(bytes: Buffer, asked: string): void {
    check(native().send(this.#descriptor, bytes, bytes.length, 0), asked);
  }

  /** Sends a change from another thread: the kernel carries it out meanwhile, which takes long if there is much to do. */
  async sendChange(bytes: Buffer, asked: string): Promise<void> {
    noteOwnPort(this.port);
    // The kernel doubles the size. Only real root with NET_ADMIN may go beyond net.core.wmem_max.
    const size = Int32Array.of(MOST_SENT / 2);
    if (this.#set(SOL_SOCKET, SO.SNDBUFFORCE, size) < 0) check(this.#set(SOL_SOCKET, SO.SNDBUF, size), asked);
    // Each request that is refused has an answer: of some 270 of them the first ones are read, and the others are lost.
    check(this.#set(SOL_NETLINK, NETLINK.NO_ENOBUFS, Int32Array.of(1)), asked);
    const { promise, resolve } = Promise.withResolvers<readonly [sent: number, errno: number]>();
    // The callback comes in Node's loop, with errno(3) of the other thread. It keeps the bytes alive until then.
    native().send.async(this.#descriptor, bytes, bytes.length, 0, (_, sent) =>
      resolve([sent, sent < 0 ? native().errno() : 0]),
    );
    const [sent, errno] = await promise;
    if (errno !== 0) throw kernelError(errno, asked);
    if (sent !== bytes.length)
      throw new NetlinkError('failed', `cannot ${asked}: send(2) took ${sent} of ${bytes.length} bytes`);
  }

  /**
   * What the kernel has sent, until this is called again for any socket; undefined if there is nothing now.
   *
   * @throws {NetlinkError} with the code ENOBUFS if messages were lost
   */
  receive(): Buffer | undefined {
    const { recvfrom, errno } = native();
    senderSize[0] = ADDRESS_BYTES;
    const length = recvfrom(this.#descriptor, received, received.length, MSG_TRUNC, sender, senderSize);
    if (length < 0 && errno() === EAGAIN) return undefined;
    check(length, 'receive from a netlink socket');
    if (length > received.length) throw malformed(`${length} bytes at once`);
    // Another process of root can write to the socket too: what it says does not count.
    const isKernel = senderSize[0] === ADDRESS_BYTES && sender.readUInt32LE(4) === 0;
    return received.subarray(0, isKernel ? length : 0);
  }

  /**
   * Waits in Node's loop until there is something to receive, or close() ends the wait. The process does not end meanwhile
   * by itself: then the module would call back once more, and abort it.
   */
  readable(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    // In a turn of Node's own: the module does not promise that promises go on after its callback.
    const handle = native().poll(this.#descriptor, () => setImmediate(end));
    const end = () => {
      handle.close();
      this.#endWait = undefined;
      resolve();
    };
    this.#endWait = end;
    return promise;
  }

  /** Subscribes to changes of nf_tables. */
  subscribe(): void {
    const asked = 'subscribe to changes of nf_tables';
    // The kernel doubles the size. Only real root with NET_ADMIN may go beyond net.core.rmem_max.
    const size = Int32Array.of(MOST_WAITING / 2);
    if (this.#set(SOL_SOCKET, SO.RCVBUFFORCE, size) < 0) check(this.#set(SOL_SOCKET, SO.RCVBUF, size), asked);
    this.join(NFNLGRP_NFTABLES, asked);
  }

  join(group: number, asked: string): void {
    check(this.#set(SOL_NETLINK, NETLINK.ADD_MEMBERSHIP, Int32Array.of(group)), asked);
  }

  /** Lets the kernel send only what a request for a list describes, instead of everything (Linux 4.20). */
  filterDumps(asked: string): void {
    check(this.#set(SOL_NETLINK, NETLINK.GET_STRICT_CHK, Int32Array.of(1)), asked);
  }

  get isOpen(): boolean {
    return this.#descriptor >= 0;
  }

  close(): void {
    if (!this.isOpen) return;
    this.#endWait?.();
    native().close(this.#descriptor);
    this.#descriptor = -1;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #set(level: number, option: number, value: Buffer | Int32Array): number {
    return native().setsockopt(this.#descriptor, level, option, value, value.byteLength);
  }
}

function check(result: number, asked: string): number {
  if (result < 0) throw kernelError(native().errno(), asked);
  return result;
}

import { errorMessage } from '../text/error.ts';
import type { Slice } from './attributes.ts';
import { kernelError, malformed, NetlinkError } from './error.ts';
import { cFunction, native } from './native.ts';

/** bits/socket.h, asm-generic/socket.h and linux/netlink.h, for x86-64 and arm64. */
const AF_NETLINK = 16;
const NETLINK_NETFILTER = 12;
const SOCK_RAW_NONBLOCK_CLOEXEC = 3 | 0o4000 | 0o2000000;
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
const SO_ATTACH_FILTER = 26;
const SO_SNDBUFFORCE = 32;
const SOL_NETLINK = 270;
const NETLINK_ADD_MEMBERSHIP = 1;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const MSG_TRUNC = 0x20;
const [EINTR, EAGAIN] = [4, 11];

/** The size of `struct sockaddr_nl`: family, port (at byte 4) and groups. */
const ADDRESS_BYTES = 12;

/** The kernel sends at most 32 KiB at once. */
const RECEIVE_BYTES = 65_536;

/** The limit for what is sent at once: some 260,000 ranges of IPv6. */
const MOST_SENT = 16 * 1024 * 1024;

/** What the kernel needs of the send buffer, beside the message. */
const SEND_OVERHEAD = 32;

let functions: ReturnType<typeof load> | undefined;
const received = Buffer.allocUnsafeSlow(RECEIVE_BYTES);

function load() {
  return {
    socket: cFunction('int socket(int, int, int)'),
    bind: cFunction('int bind(int, void *, int)'),
    getsockname: cFunction('int getsockname(int, void *, void *)'),
    getsockopt: cFunction('int getsockopt(int, int, int, void *, void *)'),
    setsockopt: cFunction('int setsockopt(int, int, int, void *, int)'),
    send: cFunction('int64_t send(int, void *, size_t, int)'),
    recvfrom: cFunction('int64_t recvfrom(int, void *, size_t, int, void *, void *)'),
    close: cFunction('int close(int)'),
  };
}

function c(): ReturnType<typeof load> {
  try {
    functions ??= load();
    return functions;
  } catch (error) {
    throw new NetlinkError(
      'unsupported',
      `cannot load the module for netlink sockets: ${errorMessage(error)}`,
    );
  }
}

/** A socket to the kernel's netfilter (netlink(7)). It never blocks the thread; requests that only read are answered at once. */
export class NetlinkSocket {
  /** The kernel's name for the socket. */
  readonly port: number;
  readonly #descriptor: number;
  readonly #sender = Buffer.alloc(ADDRESS_BYTES);
  readonly #senderLength = Buffer.alloc(4);
  #isClosed = false;
  #endWait: (() => void) | undefined;

  /** @throws {NetlinkError} */
  constructor() {
    const asked = 'open a netlink socket';
    this.#descriptor = check(c().socket(AF_NETLINK, SOCK_RAW_NONBLOCK_CLOEXEC, NETLINK_NETFILTER), asked);
    try {
      const address = Buffer.alloc(ADDRESS_BYTES);
      address.writeUInt16LE(AF_NETLINK);
      check(c().bind(this.#descriptor, address, ADDRESS_BYTES), asked);
      check(c().getsockname(this.#descriptor, address, integer(ADDRESS_BYTES)), asked);
      this.port = address.readUInt32LE(4);
      // Errors with an explanation, and without the request.
      this.#set(SOL_NETLINK, NETLINK_EXT_ACK, integer(1), asked);
      this.#set(SOL_NETLINK, NETLINK_CAP_ACK, integer(1), asked);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Sends a short request that only reads: the kernel answers it before this returns. */
  send(bytes: Buffer, asked: string): void {
    while (c().send(this.#open(), bytes, bytes.length, 0) < 0) {
      if (native().errno() !== EINTR) throw kernelError(native().errno(), asked);
    }
  }

  /** Sends a change from another thread: the kernel carries it out meanwhile, which takes long if there is much to do. */
  async sendChange(bytes: Buffer, asked: string): Promise<void> {
    this.#enlargeSendBuffer(bytes.length + SEND_OVERHEAD, asked);
    const { promise, resolve } = Promise.withResolvers<number>();
    // The callback comes in Node's loop, with errno(3) of the other thread. It keeps the bytes alive until then.
    c().send.async(this.#open(), bytes, bytes.length, 0, (_, sent) =>
      resolve(sent === bytes.length ? 0 : native().errno()),
    );
    const errno = await promise;
    if (errno !== 0) throw kernelError(errno, asked);
  }

  /**
   * What the kernel has sent, until this is called again for any socket; undefined if there is nothing now.
   *
   * @throws {NetlinkError} with the code ENOBUFS if messages were lost
   */
  receive(): Slice | undefined {
    this.#senderLength.writeUInt32LE(ADDRESS_BYTES);
    const length = c().recvfrom(
      this.#open(),
      received,
      RECEIVE_BYTES,
      MSG_TRUNC,
      this.#sender,
      this.#senderLength,
    );
    const errno = length < 0 ? native().errno() : 0;
    if (errno === EAGAIN || errno === EINTR) return undefined;
    if (errno !== 0) throw kernelError(errno, 'receive from a netlink socket');
    if (length > RECEIVE_BYTES) throw malformed(`${length} bytes at once`);
    // Another process of root can write to the socket too: what it says does not count.
    const isKernel =
      this.#senderLength.readUInt32LE() === ADDRESS_BYTES && this.#sender.readUInt32LE(4) === 0;
    return { buffer: received, from: 0, to: isKernel ? length : 0 };
  }

  /**
   * Waits in Node's loop until there is something to receive, or close() or the time limit ends the wait. The process does
   * not end meanwhile by itself: then the module would call back once more, and abort it.
   */
  readable(timeoutMs?: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    // In a turn of Node's own: the module does not promise that promises go on after its callback.
    const handle = native().node.poll(this.#open(), () => setImmediate(end));
    const end = () => {
      handle.close();
      clearTimeout(timer);
      this.#endWait = undefined;
      resolve();
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(end, timeoutMs);
    this.#endWait = end;
    return promise;
  }

  /**
   * Subscribes to a multicast group, of which only messages of one type come through: the socket filter drops all others
   * before they take room in the receive buffer.
   */
  subscribe(group: number, type: number): void {
    const asked = `subscribe to group ${group} of netfilter`;
    const program = filterProgram(type);
    check(c().setsockopt(this.#open(), SOL_SOCKET, SO_ATTACH_FILTER, program, FPROG_BYTES), asked);
    this.#set(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, integer(group), asked);
  }

  get isOpen(): boolean {
    return !this.#isClosed;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#endWait?.();
    this.#isClosed = true;
    c().close(this.#descriptor);
  }

  #open(): number {
    if (this.#isClosed) throw new NetlinkError('refused', 'the netlink socket is closed');
    return this.#descriptor;
  }

  #set(level: number, option: number, value: Buffer, asked: string): void {
    check(c().setsockopt(this.#open(), level, option, value, value.length), asked);
  }

  /** Only real root with NET_ADMIN may go beyond net.core.wmem_max. */
  #enlargeSendBuffer(bytes: number, asked: string): void {
    const size = integer(0);
    if (bytes > MOST_SENT) throw tooLarge(asked, bytes, `the limit is ${MOST_SENT}`);
    check(c().getsockopt(this.#open(), SOL_SOCKET, SO_SNDBUF, size, integer(4)), asked);
    if (size.readUInt32LE() >= bytes) return;
    if (c().setsockopt(this.#descriptor, SOL_SOCKET, SO_SNDBUFFORCE, integer(bytes), 4) === 0) return;
    this.#set(SOL_SOCKET, SO_SNDBUF, integer(bytes), asked);
    check(c().getsockopt(this.#descriptor, SOL_SOCKET, SO_SNDBUF, size, integer(4)), asked);
    if (size.readUInt32LE() < bytes) throw tooLarge(asked, bytes, 'raise net.core.wmem_max');
  }
}

function tooLarge(asked: string, bytes: number, remedy: string): NetlinkError {
  return new NetlinkError(
    'too large',
    `cannot ${asked}: ${bytes} bytes do not fit the send buffer, ${remedy}`,
  );
}

function check(result: number, asked: string): number {
  if (result < 0) throw kernelError(native().errno(), asked);
  return result;
}

/** An `int` in memory. */
function integer(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

/** `struct sock_fprog` and, behind it, instructions of classic BPF (linux/filter.h), which read big-endian numbers. */
function filterProgram(type: number): Buffer {
  const bigEndian = ((type & 0xff) << 8) | (type >> 8);
  const instructions = [
    { code: 0x28, jumpFalse: 0, k: 4 }, // load the type of the message, at byte 4
    { code: 0x15, jumpFalse: 1, k: bigEndian }, // if it differs, skip one
    { code: 0x06, jumpFalse: 0, k: 0xffffffff }, // accept all bytes
    { code: 0x06, jumpFalse: 0, k: 0 }, // drop
  ];
  const program = Buffer.alloc(FPROG_BYTES + 8 * instructions.length);
  program.writeUInt16LE(instructions.length);
  program.writeBigUInt64LE(native().address(program) + BigInt(FPROG_BYTES), 8);
  for (const [index, { code, jumpFalse, k }] of instructions.entries()) {
    const at = FPROG_BYTES + 8 * index;
    program.writeUInt16LE(code, at);
    program.writeUInt8(jumpFalse, at + 3);
    program.writeUInt32LE(k, at + 4);
  }
  return program;
}

/** The number of instructions, and a pointer to them. */
const FPROG_BYTES = 16;

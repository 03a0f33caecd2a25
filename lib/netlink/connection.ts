import { setImmediate as nextTurn } from 'node:timers/promises';
import { Writer } from './attributes.ts';
import { interrupted, kernelError, malformed, NetlinkError } from './error.ts';
import {
  type BatchMessage,
  FLAGS,
  type Message,
  messagesIn,
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  NLMSG_ERROR,
  NLMSG_NOOP,
  NLMSG_OVERRUN,
  type Outcome,
  outcomeOf,
  writeBatch,
  writeMessage,
} from './messages.ts';
import { NetlinkSocket } from './socket.ts';

/** A request that changes nothing. */
export interface Request {
  /** What is asked, as in `list the rules of ip nat POSTROUTING`. */
  readonly asked: string;
  readonly type: number;
  /** The type of the messages that answer it. */
  readonly reply: number;
  readonly protocol: number;
  readonly content?: (to: Writer) => void;
}

/** The kernel answers within the request itself; this is for a kernel that does not. */
const TIMEOUT_MS = 5_000;

/** The limit for all replies to one request: some 700,000 elements, or 100,000 rules. */
const MOST_RECEIVED = 64 * 1024 * 1024;

/** From here on, the numbers of requests begin at 1 again; they have 32 bits. */
const LAST_SEQUENCE = 2 ** 31;

const [ENOENT, ENOBUFS] = [2, 105];

/** How long replies are read before other events have their turn. */
const SLICE_MS = 5;

/** Requests to the kernel, one after the other. After an error, later requests have a new socket: no reply is mixed up. */
export class Connection {
  #socket: NetlinkSocket | undefined = new NetlinkSocket();
  #sequence = 0;
  #last: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  /**
   * Asks for one thing. `read` must read the reply at once.
   *
   * @returns undefined if there is no such thing
   */
  async get<Reply>(request: Request, read: (reply: Message) => Reply): Promise<Reply | undefined> {
    let reply: Reply | undefined;
    const { errno, said } = await this.#ask(request, FLAGS.none, (message) => {
      reply = read(message);
      return true;
    });
    if (errno !== 0 && errno !== ENOENT) throw kernelError(errno, request.asked, said);
    return reply;
  }

  /**
   * Asks for all things of a kind. `read` must read each reply at once.
   *
   * @returns whether what contains them is there
   */
  async dump(request: Request, read: (reply: Message) => void): Promise<boolean> {
    const { errno, said } = await this.#ask(request, FLAGS.dump, (message) => {
      read(message);
      return false;
    });
    if (errno !== 0 && errno !== ENOENT) throw kernelError(errno, request.asked, said);
    return errno === 0;
  }

  /** Carries out all messages, or none. */
  async change(messages: readonly BatchMessage[], asked: string): Promise<void> {
    await this.#inTurn(async (socket) => {
      const first = this.#reserve(messages.length + 2);
      const last = first + messages.length;
      await socket.sendChange(await writeBatch(messages, first), asked);
      await receive(socket, { asked, first, last }, (message) => {
        if (message.type !== NLMSG_ERROR) throw malformed(`type ${message.type} as the answer to a batch`);
        const { errno, said } = outcomeOf(message);
        if (errno !== 0) throw kernelError(errno, asked, said);
        return message.sequence === last;
      });
    });
  }

  /** Closes the socket after the pending requests. */
  close(): void {
    this.#isClosed = true;
    this.#last = this.#last.then(() => this.#socket?.close());
  }

  async #ask(
    { asked, type, reply, protocol, content }: Request,
    flags: number,
    take: (reply: Message) => boolean,
  ): Promise<Outcome> {
    return await this.#inTurn(async (socket) => {
      const sequence = this.#reserve(1);
      const writer = new Writer();
      writeMessage(writer, { type, flags, sequence, protocol }, () => content?.(writer));
      socket.send(writer.bytes, asked);
      let outcome: Outcome = { errno: 0, said: '' };
      await receive(socket, { asked, first: sequence, last: sequence }, (message) => {
        if (message.flags & NLM_F_DUMP_INTR) throw interrupted(asked);
        const isEnd = message.type === NLMSG_ERROR || message.type === NLMSG_DONE;
        if (isEnd) outcome = outcomeOf(message);
        else if (message.type !== reply) throw malformed(`type ${message.type} instead of ${reply}`);
        return isEnd || take(message);
      });
      return outcome;
    });
  }

  /** The first of so many numbers that follow each other. */
  #reserve(count: number): number {
    if (this.#sequence > LAST_SEQUENCE) this.#sequence = 0;
    const first = this.#sequence + 1;
    this.#sequence += count;
    return first;
  }

  async #inTurn<Result>(use: (socket: NetlinkSocket) => Promise<Result>): Promise<Result> {
    if (this.#isClosed) throw new NetlinkError('refused', 'the netlink socket is closed');
    const turn = this.#last.then(async () => {
      this.#socket ??= new NetlinkSocket();
      const socket = this.#socket;
      try {
        return await use(socket);
      } catch (error) {
        socket.close();
        this.#socket = undefined;
        throw error;
      }
    });
    this.#last = turn.catch(() => {});
    return await turn;
  }
}

/** The messages to receive: those that answer the numbers from `first` to `last`. */
interface Expected {
  readonly asked: string;
  readonly first: number;
  readonly last: number;
}

/** What is needed of a socket to receive. */
type Receiver = Pick<NetlinkSocket, 'port' | 'receive' | 'readable'>;

/** Receives messages until `take` says that the last one came. Between slices, other events have their turn. */
export async function receive(
  socket: Receiver,
  { asked, first, last }: Expected,
  take: (message: Message) => boolean,
): Promise<void> {
  let [total, began, hasWaited] = [0, performance.now(), false];
  for (;;) {
    const slice = socket.receive();
    if (slice === undefined) {
      if (hasWaited) throw new NetlinkError('timeout', `cannot ${asked}: the kernel does not answer`);
      await socket.readable(TIMEOUT_MS);
    }
    hasWaited = slice === undefined;
    for (const message of slice === undefined ? [] : messagesIn(slice)) {
      const { type, sequence, port } = message;
      if (type === NLMSG_NOOP) continue;
      if (type === NLMSG_OVERRUN) throw kernelError(ENOBUFS, asked);
      if (sequence < first || sequence > last || port !== socket.port)
        throw malformed(`number ${sequence} for port ${port}, which was not asked`);
      if (take(message)) return;
    }
    total += slice?.to ?? 0;
    if (total > MOST_RECEIVED)
      throw new NetlinkError('too large', `cannot ${asked}: the reply is above ${MOST_RECEIVED} bytes`);
    if (performance.now() - began < SLICE_MS) continue;
    await nextTurn();
    began = performance.now();
  }
}

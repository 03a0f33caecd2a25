import { setImmediate as nextTurn } from 'node:timers/promises';
import { kernelError, malformed, NetlinkError, type RefusedPart } from './error.ts';
import {
  errnoIn,
  type Message,
  messagesIn,
  offsetIn,
  type Request,
  writeBatch,
  writeMessage,
} from './messages.ts';
import { NetlinkSocket } from './socket.ts';

/** The most bytes of all replies to one request: some 700,000 elements, or 100,000 rules. */
const MOST_RECEIVED = 64 * 1024 * 1024;

/** How long replies are read before other events have their turn. */
const SLICE_MS = 5;

/** Requests with elements hold 1,000 each. */
const REQUESTS_IN_A_TURN = 4;

const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;

/** Requests to the kernel, one after the other. After an error, later requests have a new socket: no reply is mixed up. */
export class Connection {
  #socket: NetlinkSocket | undefined;
  #sequence = 0;
  #last: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  /** @param socket if there is none, the first request opens one */
  constructor(socket?: NetlinkSocket) {
    this.#socket = socket;
  }

  /**
   * Asks for something. Each reply must be read at once.
   *
   * @param mostBytes more bytes of all replies are an error
   * @returns what was read; undefined if what is asked for, or what holds it, does not exist
   */
  async ask<Reply>(
    asked: string,
    request: Request,
    read: (reply: Message) => Reply,
    mostBytes = MOST_RECEIVED,
  ): Promise<readonly Reply[] | undefined> {
    return await this.#inTurn(async (socket, sequence) => {
      const replies: Reply[] = [];
      socket.send(writeMessage(request, sequence), asked);
      const type = request.reply ?? request.type - 1;
      const expected = { asked, sequence, type, mostBytes };
      try {
        await receive(replyParts(socket, expected), (reply) => replies.push(read(reply)));
      } catch (error) {
        if (error instanceof NetlinkError && error.code === 'ENOENT') return undefined;
        throw error;
      }
      return replies;
    });
  }

  /** The port of the socket; undefined if none is open. */
  get port(): number | undefined {
    return this.#socket?.port;
  }

  /**
   * Carries out all requests, or none. Between them, other events have their turn.
   *
   * @param generation as of `writeBatch`
   * @throws {NetlinkError} that says which request the kernel refuses, and which part of it
   */
  async change(asked: string, requests: Iterable<Request>, generation?: number): Promise<void> {
    const batch: Request[] = [];
    for (const request of requests) {
      batch.push(request);
      if (batch.length % REQUESTS_IN_A_TURN === 0) await nextTurn();
    }
    await this.#inTurn(async (socket, sequence) => {
      await socket.sendChange(writeBatch(batch, sequence, generation), asked);
      this.#sequence = (sequence + batch.length) >>> 0;
      finishChange(socket, sequence, batch.length, asked);
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#last = this.#last.then(() => this.#socket?.close());
  }

  async #inTurn<Result>(use: (socket: NetlinkSocket, sequence: number) => Promise<Result>): Promise<Result> {
    if (this.#isClosed) throw new NetlinkError('failed', 'the netlink socket is closed');
    const turn = this.#last.then(async () => {
      this.#socket ??= new NetlinkSocket();
      this.#sequence = (this.#sequence + 1) >>> 0;
      try {
        return await use(this.#socket, this.#sequence);
      } catch (error) {
        this.#socket.close();
        this.#socket = undefined;
        throw error;
      }
    });
    this.#last = turn.catch(() => {});
    return await turn;
  }
}

/**
 * Takes the answers to a batch, which all are there: the last request is acknowledged, also if another one has failed.
 *
 * @throws {NetlinkError} for the first error
 */
function finishChange(
  socket: Pick<NetlinkSocket, 'port' | 'receive'>,
  sequence: number,
  count: number,
  asked: string,
): void {
  let isOver = false;
  let first: { readonly errno: number; readonly at: RefusedPart } | undefined;
  for (let bytes = socket.receive(); bytes !== undefined; bytes = socket.receive())
    for (const message of messagesIn(bytes)) {
      const index = (message.sequence - sequence) >>> 0;
      if (index >= count || message.port !== socket.port || message.type !== NLMSG_ERROR)
        throw notAsked(message);
      const errno = errnoIn(message);
      isOver ||= errno === 0 && index === count - 1;
      if (errno !== 0) first ??= { errno, at: { request: index, offset: offsetIn(message) } };
    }
  if (first !== undefined) throw kernelError(first.errno, asked, first.at);
  if (!isOver) throw noAnswer(asked);
}

/** What is asked for in words, and what tells the replies to it from others. */
interface Expected {
  readonly asked: string;
  readonly sequence: number;
  /** Undefined if only the end is to come. */
  readonly type?: number;
  /** More bytes of all replies are an error. */
  readonly mostBytes?: number;
}

/**
 * The replies to a request up to their end, in parts: what the kernel sends at once. Each must be read before the next.
 * The kernel answers within send(2), and goes on with a dump within recv(2): there is nothing to wait for.
 * NLM_F_DUMP_INTR is ignored: it says that anything changed in nf_tables, which on a busy node is always so.
 *
 * @throws {NetlinkError} also for the error with which the kernel ends them
 */
export function* replyParts(
  socket: Pick<NetlinkSocket, 'port' | 'receive'>,
  expected: Expected,
): Generator<readonly Message[], void> {
  const { asked, mostBytes = Number.POSITIVE_INFINITY } = expected;
  for (let [isOver, total] = [false, 0]; !isOver; ) {
    const bytes = socket.receive();
    if (bytes === undefined) throw noAnswer(asked);
    const messages = messagesIn(bytes);
    const end = messages.findIndex((message) => isEnd(message, expected, socket.port));
    isOver = end >= 0;
    total += bytes.length;
    if (total > mostBytes)
      throw new NetlinkError('limit', `cannot ${asked}: the reply is above ${mostBytes} bytes`);
    yield isOver ? messages.slice(0, end) : messages;
  }
}

/** Whether the message ends the replies; otherwise it must be one of them. */
function isEnd(message: Message, { asked, sequence, type }: Expected, port: number): boolean {
  if (message.sequence !== sequence || message.port !== port) throw notAsked(message);
  if (message.type === NLMSG_ERROR || (message.type === NLMSG_DONE && type !== undefined)) {
    const errno = errnoIn(message);
    if (errno !== 0) throw kernelError(errno, asked);
    return true;
  }
  if (message.type !== type) throw malformed(`type ${message.type} as an answer`);
  return false;
}

function noAnswer(asked: string): NetlinkError {
  return new NetlinkError('failed', `cannot ${asked}: the kernel does not answer`);
}

function notAsked({ sequence, port }: Message): NetlinkError {
  return malformed(`number ${sequence} for port ${port}, which was not asked`);
}

/** Takes all replies. Between slices, other events have their turn. */
export async function receive(
  parts: Iterable<readonly Message[]>,
  take: (reply: Message) => void,
): Promise<void> {
  let began = performance.now();
  for (const replies of parts) {
    for (const reply of replies) take(reply);
    if (performance.now() - began < SLICE_MS) continue;
    await nextTurn();
    began = performance.now();
  }
}

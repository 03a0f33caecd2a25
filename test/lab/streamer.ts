/**
 * Keeps TCP streams busy, each to a destination that reflects it. The bytes of a stream are numbers that count up,
 * so one that is lost, doubled, changed or misplaced is noticed at once.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { answer } from './helper.ts';
import { STREAM_PORT, type StreamState } from './stream.ts';

/** Opens the stream to the destination where there is none, and waits until so many more bytes have come back. */
export interface Advance {
  readonly destination: string;
  readonly bytes: number;
}

/** A packet that is lost is sent again after 200 ms, 400 ms and so on (TCP_RTO_MIN of the kernel). */
const PATIENCE_MS = 60_000;
const CHUNK_BYTES = 4096;
/** Shorter than any change of rules takes. */
const PAUSE_MS = 4;

class Stream {
  readonly #socket: Socket;
  #sent = 0;
  #received = 0;
  #failure: string | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (data) => this.#check(data));
    socket.on('error', ({ message }) => this.#fail(message));
    socket.on('close', () => this.#fail('the other side has closed it'));
  }

  /** Sends a chunk when the one before has come back. */
  async run(): Promise<void> {
    while (this.#failure === undefined) {
      const from = this.#sent;
      this.#sent += CHUNK_BYTES;
      this.#socket.write(bytesOf(from, this.#sent));
      while (this.#received < this.#sent && this.#failure === undefined) await delay(PAUSE_MS);
    }
  }

  async advance(bytes: number): Promise<StreamState> {
    // What is under way already says nothing about packets from now on.
    const goal = this.#sent + bytes;
    const deadline = performance.now() + PATIENCE_MS;
    while (this.#received < goal) {
      if (this.#failure === undefined && performance.now() > deadline) this.#fail('it stands still');
      if (this.#failure !== undefined) {
        throw new Error(
          `the stream is broken after ${this.#received} of ${this.#sent} bytes: ${this.#failure}`,
        );
      }
      await delay(PAUSE_MS);
    }
    return { bytes: this.#received };
  }

  #check(data: Buffer): void {
    const wanted = bytesOf(this.#received, this.#received + data.length);
    if (!data.equals(wanted)) {
      const index = data.findIndex((byte, at) => byte !== wanted[at]);
      this.#fail(`byte ${this.#received + index} is ${data[index]} and not ${wanted[index]}`);
    }
    this.#received += data.length;
  }

  /** The first failure is the one to tell. */
  #fail(message: string): void {
    this.#failure ??= message;
  }
}

/** The bytes of a stream between two places in it. */
function bytesOf(from: number, to: number): Buffer {
  const first = Math.floor(from / 4);
  const numbers = Buffer.alloc(4 * (Math.ceil(to / 4) - first));
  for (let at = 0; at < numbers.length; at += 4) numbers.writeUInt32BE(first + at / 4, at);
  return numbers.subarray(from - 4 * first, to - 4 * first);
}

const streams = new Map<string, Promise<Stream>>();

async function open(destination: string): Promise<Stream> {
  const socket = connect({ host: destination, port: STREAM_PORT, noDelay: true });
  await once(socket, 'connect');
  const stream = new Stream(socket);
  void stream.run();
  return stream;
}

answer<Advance, StreamState>(async ({ destination, bytes }) => {
  const stream = streams.get(destination) ?? open(destination);
  streams.set(destination, stream);
  return await (await stream).advance(bytes);
});

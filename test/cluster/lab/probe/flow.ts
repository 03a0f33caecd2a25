import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { type Flow, PORT, type Seen, type Target } from './errands.ts';

/** A lost packet is sent again after 1, 3 and 7 seconds (TCP_TIMEOUT_INIT of the kernel). */
const PATIENCE_MS = 10_000;
/** A datagram that is lost is not sent again by the kernel. */
const DATAGRAM_MS = 1_000;
const PAUSE_MS = 200;

/** A way to one server, open until it is closed. */
interface Way {
  /** Sends, and waits for the answer to it; undefined if it was lost. */
  exchange(): Promise<Seen | undefined>;
  close(): void;
}

async function openWay(target: Target): Promise<Way> {
  return target.protocol === 'tcp' ? await openTcp(target.address) : await openUdp(target.address);
}

/** The first answer comes without a question. */
async function openTcp(address: string): Promise<Way> {
  const socket = connect({ host: address, port: PORT, noDelay: true });
  const lines = createInterface(socket)[Symbol.asyncIterator]();
  const failed = new Promise<never>((_, reject) => socket.on('error', reject));
  // Whoever waits for an answer gets it; without anybody waiting it is no error of this program.
  failed.catch(() => {});
  let isFirst = true;
  return {
    exchange: async () => {
      if (!isFirst) socket.write('\n');
      isFirst = false;
      const tooLong = delay(PATIENCE_MS, undefined, { ref: false }).then(() => {
        throw new Error(`${address} did not answer within ${PATIENCE_MS / 1000} s`);
      });
      const { value, done } = await Promise.race([lines.next(), failed, tooLong]);
      if (done === true) throw new Error(`${address} closed the connection`);
      return JSON.parse(value);
    },
    // A reset leaves no port in TIME_WAIT.
    close: () => socket.resetAndDestroy(),
  };
}

async function openUdp(address: string): Promise<Way> {
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
  socket.connect(PORT, address);
  await once(socket, 'connect');
  // A port that nobody listens on is an error of the socket, and to the flow a lost datagram.
  socket.on('error', () => {});
  return {
    exchange: async () => {
      const answered = AbortSignal.timeout(DATAGRAM_MS);
      const message = once(socket, 'message', { signal: answered });
      socket.send('?');
      const received = await message.catch(() => undefined);
      return received === undefined ? undefined : JSON.parse(String(received[0]));
    },
    close: () => socket.close(),
  };
}

/** A new connection or datagram. */
export async function ask(target: Target): Promise<Seen> {
  const way = await openWay(target);
  try {
    for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; ) {
      const seen = await way.exchange();
      if (seen !== undefined) return seen;
    }
    throw new Error(`${target.address} did not answer within ${PATIENCE_MS / 1000} s`);
  } finally {
    way.close();
  }
}

/** A flow that goes on by itself, so that the kernel does not forget it. */
export class RunningFlow {
  readonly #sources = new Set<string>();
  #exchanges = 0;
  #lost = 0;
  #begun = 0;
  #failure: Error | undefined;
  #isClosed = false;

  constructor(target: Target) {
    void this.#run(target).catch((error: Error) => {
      this.#failure = error;
    });
  }

  /** Waits for an exchange that begins from now on. */
  async next(): Promise<Flow> {
    const wanted = this.#begun + 1;
    for (const deadline = performance.now() + PATIENCE_MS; this.#exchanges + this.#lost < wanted; ) {
      if (this.#failure !== undefined) throw this.#failure;
      if (performance.now() > deadline) throw new Error('the flow stands still');
      await delay(10);
    }
    return { sources: [...this.#sources], exchanges: this.#exchanges, lost: this.#lost };
  }

  close(): void {
    this.#isClosed = true;
  }

  async #run(target: Target): Promise<void> {
    const way = await openWay(target);
    try {
      for (; !this.#isClosed; await delay(PAUSE_MS)) {
        this.#begun += 1;
        const seen = await way.exchange();
        if (seen === undefined) this.#lost += 1;
        else {
          this.#exchanges += 1;
          this.#sources.add(seen.source);
        }
      }
    } finally {
      way.close();
    }
  }
}

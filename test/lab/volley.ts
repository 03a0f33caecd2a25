import type { Box } from './box.ts';
import { startHelper } from './helper.ts';
import type { Salvo } from './sender.ts';
import type { Sighting, Watch } from './witness.ts';

/** From where a packet came, as its receiver saw it. */
export interface Seen {
  readonly address: string;
  readonly port: number;
}

/** Where the receiver listens. */
export const PORT = 4000;

export interface VolleyOptions {
  /** UDP where absent. */
  readonly protocol?: 'udp' | 'tcp';
  /** The source that all packets leave with; a port not used before, and the kernel's address, where absent. */
  readonly source?: Seen;
}

/** Packets from one box to another. */
export interface Range extends AsyncDisposable {
  /** Sends a packet to each destination; the source that each had on arrival, in the order of the destinations. */
  sourcesSeen(destinations: readonly string[], options?: VolleyOptions): Promise<readonly Seen[]>;
}

const PATIENCE_MS = 250;
/** A kernel may drop any UDP packet, such as while it asks for a neighbour's address. */
const ATTEMPTS = 20;

/** Starts a sender in one box and a receiver in the other (or the same). */
export async function openRange(from: Box, to: Box): Promise<Range> {
  await using stack = new AsyncDisposableStack();
  const witness = stack.use(
    await startHelper<Watch, readonly Sighting[]>(to, new URL('witness.ts', import.meta.url)),
  );
  const sender = stack.use(await startHelper<Salvo, true>(from, new URL('sender.ts', import.meta.url)));
  await witness.ask({ volley: 0, count: 0, patienceMs: 0 }); // it listens
  const owned = stack.move();
  let volleys = 0;
  return {
    async sourcesSeen(destinations, { protocol = 'udp', source } = {}) {
      volleys += 1;
      const volley = volleys;
      const packets = destinations.map((destination, index) => ({ index, destination }));
      const seen = new Map<number, Seen>();
      for (let attempt = 0; attempt < ATTEMPTS && seen.size < packets.length; attempt += 1) {
        const missing = packets.filter(({ index }) => !seen.has(index));
        await sender.ask({ volley, protocol, packets: missing, source });
        const watch = { volley, count: packets.length, patienceMs: PATIENCE_MS };
        for (const [index, one] of await witness.ask(watch)) seen.set(index, one);
      }
      return packets.map(({ index, destination }) => {
        const one = seen.get(index);
        if (one === undefined) throw new Error(`no packet to ${destination} arrives`);
        return one;
      });
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

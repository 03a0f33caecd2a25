import type { Box } from './box.ts';
import { type Helper, startHelper } from './helper.ts';
import type { Salvo } from './sender.ts';
import type { Sighting, Watch } from './witness.ts';

/** From where a packet came, as its receiver saw it. */
export interface Seen {
  readonly address: string;
  readonly port: number;
}

/** Where the receiver listens. */
export const PORT = 4000;

interface VolleyOptions {
  /** UDP where absent. */
  readonly protocol?: 'udp' | 'tcp';
  /** The source that all packets leave with; a port not used before, and the kernel's address, where absent. */
  readonly source?: Seen;
}

/** Packets from a box to a witness. */
export interface Sender extends AsyncDisposable {
  /** Sends a packet to each destination; the source that each had on arrival, in the order of the destinations. */
  sourcesSeen(destinations: readonly string[], options?: VolleyOptions): Promise<readonly Seen[]>;
}

/** Sees every packet that arrives in its box, whatever local address it is sent to. */
export interface Witness extends AsyncDisposable {
  /** Starts a sender in a box whose packets arrive here. */
  openSender(from: Box): Promise<Sender>;
}

const PATIENCE_MS = 250;
/** A kernel may drop any UDP packet, such as while it asks for a neighbour's address. */
const ATTEMPTS = 20;

export async function startWitness(box: Box): Promise<Witness> {
  const helper = await startHelper<Watch, readonly Sighting[]>(box, new URL('witness.ts', import.meta.url));
  let volleys = 0;
  const nextVolley = () => {
    volleys += 1;
    return volleys;
  };
  return {
    async openSender(from) {
      const sender = await startHelper<Salvo, true>(from, new URL('sender.ts', import.meta.url));
      await helper.ask({ volley: 0, count: 0, patienceMs: 0 }); // it listens
      return {
        sourcesSeen: (destinations, options) =>
          shoot(sender, helper, { volley: nextVolley(), destinations, ...options }),
        [Symbol.asyncDispose]: () => sender[Symbol.asyncDispose](),
      };
    },
    [Symbol.asyncDispose]: () => helper[Symbol.asyncDispose](),
  };
}

async function shoot(
  sender: Helper<Salvo, true>,
  witness: Helper<Watch, readonly Sighting[]>,
  {
    volley,
    destinations,
    protocol = 'udp',
    source,
  }: VolleyOptions & { readonly volley: number; readonly destinations: readonly string[] },
): Promise<readonly Seen[]> {
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
}

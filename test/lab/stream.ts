import type { Box } from './box.ts';
import { startHelper } from './helper.ts';
import { owning } from './owning.ts';
import type { Advance } from './streamer.ts';
import type { Seen } from './volley.ts';

/** Where streams are reflected. */
export const STREAM_PORT = 4001;

export interface StreamState {
  /** How many bytes have come back, each as it was sent. */
  readonly bytes: number;
}

/** TCP connections between two boxes that are always busy in both directions. */
export interface Streams extends AsyncDisposable {
  /**
   * Opens a stream where there is none to the destination. Waits until each stream has sent more, and has it back.
   * Rejects where a byte is lost or wrong, or the connection ends or stands still.
   */
  advance(destinations: readonly string[]): Promise<readonly StreamState[]>;
  /** The source of every connection that the other side has ever accepted, in order. */
  accepted(): Promise<readonly Seen[]>;
}

/** Several packets' worth. */
const STEP_BYTES = 16_384;

export const startStreams = (from: Box, to: Box): Promise<Streams> =>
  owning(async (stack) => {
    const reflector = stack.use(
      await startHelper<true, readonly Seen[]>(to, new URL('reflector.ts', import.meta.url)),
    );
    const streamer = stack.use(
      await startHelper<Advance, StreamState>(from, new URL('streamer.ts', import.meta.url)),
    );
    await reflector.ask(true); // it listens
    return {
      advance: (destinations) =>
        Promise.all(destinations.map((destination) => streamer.ask({ destination, bytes: STEP_BYTES }))),
      accepted: () => reflector.ask(true),
    };
  });

import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';

/** Far longer than anything takes: only a failure waits so long. A kubelet reads ConfigMaps every 60 to 90 seconds. */
const PATIENCE_MS = 180_000;
const PAUSE_MS = 200;

/**
 * Looks until the state is as wanted, and returns it. A look that fails is repeated too.
 *
 * @param what the condition, for the message if it never holds
 */
export async function until<State>(
  what: string,
  look: () => Promise<State>,
  isWanted: (state: State) => boolean,
): Promise<State> {
  for (const deadline = performance.now() + PATIENCE_MS; ; await delay(PAUSE_MS)) {
    const found = await look().then(
      (state) => ({ state }),
      (error: Error) => ({ error }),
    );
    if ('state' in found && isWanted(found.state)) return found.state;
    if (performance.now() < deadline) continue;
    const last =
      'state' in found ? inspect(found.state, { depth: 6, maxStringLength: 4000 }) : found.error.message;
    throw new Error(`waited ${PATIENCE_MS / 1000} s in vain for ${what}; the last state was ${last}`);
  }
}

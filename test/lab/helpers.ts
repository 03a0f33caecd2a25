import type { Box } from './box.ts';
import type { Deed } from './conntracker.ts';
import type { Fetch, Fetched } from './fetcher.ts';
import { type Helper, startHelper } from './helper.ts';
import { fromText, toText } from './netlink.ts';

/** Asks an HTTP server in the box, also one that may be gone. */
export function startFetcher(box: Box): Promise<Helper<Fetch, Fetched>> {
  return startHelper(box, new URL('fetcher.ts', import.meta.url));
}

/** Makes, reads and deletes flows in the connection tracking of a box. */
export interface Tracker extends AsyncDisposable {
  ask<Answer>(deed: Deed): Promise<Answer>;
}

export async function startTracker(box: Box): Promise<Tracker> {
  const helper = await startHelper<string, string>(box, new URL('conntracker.ts', import.meta.url));
  return {
    ask: async <Answer>(deed: Deed) => fromText(await helper.ask(toText(deed))) as Answer,
    [Symbol.asyncDispose]: () => helper[Symbol.asyncDispose](),
  };
}

/** Asks HTTP servers that listen in the box that it is in. */
import { answer } from './helper.ts';

export interface Fetch {
  readonly url: string;
  /** The header of that name. */
  readonly accept?: string;
}

export interface Fetched {
  /** Undefined where nobody answers. */
  readonly status: number | undefined;
  readonly body: string;
}

const TIMEOUT_MS = 10_000;

answer<Fetch, Fetched>(async ({ url, accept = '*/*' }) => {
  try {
    // Kept connections would be reset by a server that is started anew on the same port.
    const headers = { accept, connection: 'close' };
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    return { status: response.status, body: await response.text() };
  } catch (error) {
    return { status: undefined, body: String(error instanceof Error ? (error.cause ?? error) : error) };
  }
});

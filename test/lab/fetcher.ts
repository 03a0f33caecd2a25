/** Asks HTTP servers that listen in the box that it is in. */
import { answer } from './helper.ts';

export interface Fetch {
  readonly url: string;
  /** How long to wait for the answer, in milliseconds. */
  readonly timeout?: number;
}

export interface Fetched {
  /** Undefined where nobody answers. */
  readonly status: number | undefined;
  readonly body: string;
}

answer<Fetch, Fetched>(async ({ url, timeout = 10_000 }) => {
  try {
    // Kept connections would be reset by a server that is started anew on the same port.
    const headers = { connection: 'close' };
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(timeout) });
    return { status: response.status, body: await response.text() };
  } catch (error) {
    return { status: undefined, body: String(error instanceof Error ? (error.cause ?? error) : error) };
  }
});

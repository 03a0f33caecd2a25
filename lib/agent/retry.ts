import { setTimeout as delay } from 'node:timers/promises';
import { DataplaneError } from '../dataplane/error.ts';

export interface RetryOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** @param waited milliseconds of the failed attempt and of the pause before the next one */
  readonly onRetry: (error: DataplaneError, attempt: number, waited: number) => void;
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

/**
 * Runs an operation, and after growing pauses runs it again, as long as its error is retryable and there is time left.
 *
 * @throws the last error, or an AbortError after the signal
 */
export async function retrying<Result>(
  operation: () => Promise<Result>,
  options: RetryOptions,
): Promise<Result> {
  const { timeoutMs, signal, onRetry } = options;
  const deadline = performance.now() + timeoutMs;
  for (let attempt = 1; ; attempt += 1) {
    const start = performance.now();
    try {
      return await operation();
    } catch (error) {
      if (!(error instanceof DataplaneError) || !error.isRetryable) throw error;
      const pause =
        Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
      if (performance.now() + pause > deadline) throw gaveUp(error, timeoutMs);
      onRetry(error, attempt, performance.now() - start + pause);
      await delay(pause, undefined, { signal });
    }
  }
}

function gaveUp(error: DataplaneError, timeoutMs: number): DataplaneError {
  return new DataplaneError(error.failure, `gave up after ${timeoutMs} ms: ${error.message}`, error.remedy);
}

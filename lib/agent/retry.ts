import { setTimeout as delay } from 'node:timers/promises';
import { DataplaneError } from '../dataplane/error.ts';
import { ExhaustedError, SystemError } from '../text/error.ts';

export interface RetryOptions {
  readonly timeoutMs: number;
  /**
   * When the time is over, in milliseconds of performance.now(): an attempt that hangs is given up then too. If it is absent, each
   * operation has its own time.
   */
  readonly deadline?: number;
  readonly signal: AbortSignal;
  /** @param waited milliseconds of the failed attempt and of the pause before the next one */
  readonly onRetry: (error: RetryableError, attempt: number, waited: number) => void;
}

/** The kernel or the system could not be asked, or refused; another attempt may succeed. */
export type RetryableError = DataplaneError | ExhaustedError;

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

/** A tool that hangs is killed at the deadline, which takes a while, and says more. */
const GRACE_MS = 2_000;

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
  const deadline = options.deadline ?? performance.now() + timeoutMs;
  let failed: RetryableError | undefined;
  for (let attempt = 1; ; attempt += 1) {
    const start = performance.now();
    try {
      if (options.deadline === undefined) return await operation();
      return await unlessHanging(operation, deadline, () => failed ?? hangs(timeoutMs));
    } catch (error) {
      if (!isRetryable(error)) throw error;
      failed = error;
      const pause =
        Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
      if (performance.now() + pause > deadline) throw gaveUp(error, timeoutMs);
      onRetry(error, attempt, performance.now() - start + pause);
      await delay(pause, undefined, { signal });
    }
  }
}

function hangs(timeoutMs: number): DataplaneError {
  const remedy = 'find out what a tool, the kernel or the disk waits for, or raise --sync-timeout';
  return new DataplaneError('refused', `the sync has not ended within ${timeoutMs} ms`, remedy);
}

/** Whether another attempt may succeed. */
function isRetryable(error: unknown): error is RetryableError {
  return error instanceof ExhaustedError || (error instanceof DataplaneError && error.isRetryable);
}

/** @param toThrow the error if it has not ended a while after the deadline */
async function unlessHanging<Result>(
  operation: () => Promise<Result>,
  deadline: number,
  toThrow: () => Error,
): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>();
  // If this process was stopped meanwhile, the time since then tells nothing about the operation, which may have ended long ago.
  let timer = setTimeout(
    () => {
      timer = setTimeout(() => reject(toThrow()), GRACE_MS);
    },
    Math.max(0, deadline - performance.now()),
  );
  try {
    return await Promise.race([operation(), promise]);
  } finally {
    clearTimeout(timer);
  }
}

function gaveUp(error: RetryableError, timeoutMs: number): Error {
  const message = `gave up after ${timeoutMs} ms: ${error.message}`;
  return error instanceof DataplaneError
    ? new DataplaneError(error.failure, message, error.remedy)
    : new SystemError(message);
}

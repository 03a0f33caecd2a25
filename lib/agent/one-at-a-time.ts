import { setTimeout as delay } from 'node:timers/promises';
import { DataplaneError } from '../dataplane/error.ts';
import type { Logger } from '../log/log.ts';
import { NetlinkError } from '../netlink/error.ts';
import { adviceText } from '../text/advice.ts';
import { SystemError } from '../text/error.ts';

/** The pause after a job is so many times as long: however often it is asked for, one of up to a second takes a tenth of a core. */
const PAUSE_TIMES = 10;
const LONGEST_PAUSE_MS = 10_000;

/**
 * Lets a job go on beside the loop, at most one at a time: of the requests during a job and the pause after it, only the latest is kept.
 *
 * @param job tells its failures itself; a bug in it is logged, and does not get to the loop
 */
export function oneAtATime<Request>(
  job: (request: Request) => Promise<void>,
  log: Logger,
): (request: Request) => void {
  let next: { readonly request: Request } | undefined;
  let isRunning = false;
  const run = async () => {
    isRunning = true;
    for (let now = next; now !== undefined; now = next) {
      next = undefined;
      const start = performance.now();
      await job(now.request).catch((error: unknown) => log.error(failureText(error)));
      const pause = Math.min(PAUSE_TIMES * (performance.now() - start), LONGEST_PAUSE_MS);
      await delay(pause, undefined, { ref: false });
    }
    isRunning = false;
  };
  return (request) => {
    next = { request };
    if (!isRunning) void run();
  };
}

/** Why a job has failed. What the system has not refused is a bug, and has its stack. */
export function failureText(error: unknown): string {
  if (error instanceof NetlinkError || error instanceof SystemError) return error.message;
  if (error instanceof DataplaneError) return adviceText(error);
  return `bug: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
}

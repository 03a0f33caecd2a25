import { setTimeout as delay } from 'node:timers/promises';
import { describeRemoval, removeAll } from '../../../lib/agent/remove.ts';
import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { installedDataplanes } from '../../../lib/dataplane/open.ts';
import type { DataplaneOptions } from '../../../lib/dataplane/options.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { leftoverPlaces } from '../../../lib/neighbours/leftovers.ts';
import type { Family } from '../../../lib/policy/policy.ts';

/** Where to look for leftovers. */
export interface Leftovers {
  readonly options: DataplaneOptions;
  readonly host: Host;
  /** The dataplane and the families in which the agent keeps rules now. */
  readonly used: Dataplane;
  readonly kept: readonly Family[];
}

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 300_000;

/** Milliseconds until a busy kernel fails an attempt. */
const ATTEMPT_MS = 1_000;

/**
 * Removes leftovers of an earlier run in another dataplane, mode or family, until nothing is left. It runs beside the
 * syncs, which do not wait for a lock that they do not need. Logs the first failure, and the success after it.
 */
export async function keepRemovingLeftovers(
  leftovers: Leftovers,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  let failure = await removeLeftovers(leftovers, log, signal);
  if (failure === undefined || signal.aborted) return;
  log.warn(`${failure}; trying again until it succeeds`);
  for (let pause = FIRST_PAUSE_MS; failure !== undefined; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    await delay(pause, undefined, { signal, ref: false }).catch(() => {});
    if (!signal.aborted) failure = await removeLeftovers(leftovers, log, signal);
    if (signal.aborted) return;
  }
  log.info('no leftovers of an earlier run are left');
}

/**
 * Removes leftovers once. Called only after the rules of this run are in the kernel, so that the node is never without
 * rules.
 *
 * @returns why it failed; undefined if nothing is left, or the signal has ended it
 */
export async function removeLeftovers(
  { options, host, used, kept }: Leftovers,
  log: Logger,
  signal: AbortSignal,
): Promise<string | undefined> {
  const what = 'cannot remove leftovers of an earlier run in another dataplane, mode or family';
  try {
    const places = leftoverPlaces(await installedDataplanes(options, host), used, kept);
    const removals = await removeAll(places, { timeoutMs: ATTEMPT_MS, signal, onRetry: () => {} });
    for (const removal of removals) {
      const { family, outcome } = removal;
      if (outcome.kind === 'removed')
        log.info({ family, rules: outcome.rules }, `left by an earlier run: ${describeRemoval(removal)}`);
    }
    const failed = removals.filter(({ outcome }) => outcome.kind === 'failed').map(describeRemoval);
    return failed.length === 0 ? undefined : `${what}: ${failed.join('; ')}`;
  } catch (error) {
    // The signal ends a pause between two attempts with an AbortError.
    if (signal.aborted) return undefined;
    if (!(error instanceof DataplaneError)) throw error;
    return `${what}: ${error.message}; ${error.remedy}`;
  }
}

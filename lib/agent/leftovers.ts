import type { Dataplane } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { listRuleLocations, possibleModes } from '../dataplane/open.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import type { Notices } from '../log/notices.ts';
import { adviceText } from '../text/advice.ts';
import { failureText } from './one-at-a-time.ts';
import { describeRemoval, hasFailed, logRemoval, removeFromAll } from './remove.ts';
import type { Knowledge } from './state.ts';

/** Milliseconds until a busy kernel fails an attempt. */
const ATTEMPT_MS = 1_000;

/** Milliseconds after a failure: there may be several rounds a second. */
const PAUSE_MS = 10_000;

export interface LeftoverOptions {
  readonly dataplane: DataplaneOptions;
  readonly host: Host;
  readonly agent: Knowledge;
  readonly notices: Notices;
  readonly signal: AbortSignal;
  /** Called when some have been removed: packets may be treated otherwise since. */
  readonly onRemoval?: () => void;
}

/**
 * Removes leftovers beside the loop, until it succeeds for each dataplane that comes into use.
 *
 * @returns what asks for it, at the end of each round in sync: the rules of the dataplane in use are in the kernel then, so that the
 * node is never without rules
 */
export function leftoverRemoval(options: LeftoverOptions): () => void {
  const { agent, notices, signal } = options;
  let done: Dataplane | undefined;
  let isRunning = false;
  let againAt = Number.NEGATIVE_INFINITY;
  const remove = async (inUse: Dataplane | undefined): Promise<void> => {
    const failure = await removeLeftovers(options);
    // The next round in sync asks for the other dataplane.
    if (signal.aborted || agent.state.dataplane !== inUse) return;
    const warning = `${failure}; trying again until it succeeds`;
    notices.warn(
      'leftovers',
      failure === undefined ? [] : [warning],
      'no leftovers of an earlier run are left',
    );
    if (failure === undefined) done = inUse;
    else againAt = performance.now() + PAUSE_MS;
  };
  return () => {
    const { dataplane } = agent.state;
    if (isRunning || dataplane === done || performance.now() < againAt) return;
    isRunning = true;
    void remove(dataplane)
      .catch((error: unknown) => notices.log.error(failureText(error)))
      .finally(() => {
        isRunning = false;
      });
  };
}

/**
 * Removes leftovers of an earlier run in another dataplane, mode or family.
 *
 * @returns why it failed; undefined if nothing is left, or if the signal or another dataplane that the loop has chosen has ended it
 */
export async function removeLeftovers(options: LeftoverOptions): Promise<string | undefined> {
  const { dataplane, host, agent, notices, signal } = options;
  const inUse = agent.state.dataplane;
  // If the loop has chosen another dataplane, that one may be at the location. The round that has chosen it asks again.
  const isOutdated = () => agent.state.dataplane !== inUse;
  const failures: string[] = [];
  try {
    for (const location of await listRuleLocations(dataplane, host, await possibleModes(dataplane, host))) {
      if (isOutdated()) return undefined;
      if (location.dataplane.name === inUse?.name && agent.state.families.has(location.family)) continue;
      const retry = { timeoutMs: ATTEMPT_MS, signal, onRetry: () => {} };
      for (const removal of await removeFromAll([location], { ...retry, isOutdated })) {
        if (removal.rules !== undefined) options.onRemoval?.();
        logRemoval(notices.log, removal, 'no longer in use: ');
        if (hasFailed(removal)) failures.push(describeRemoval(removal));
      }
    }
  } catch (error) {
    // The signal ends a pause between two attempts with an AbortError.
    if (signal.aborted) return undefined;
    if (!(error instanceof DataplaneError)) throw error;
    failures.push(adviceText(error));
  }
  if (failures.length === 0) return undefined;
  return `cannot remove leftovers of an earlier run in another dataplane, mode or family: ${failures.join('; ')}`;
}

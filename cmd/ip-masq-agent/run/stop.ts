import { describeRemoval, hasFailed, logRemoval, removeFromAll } from '../../../lib/agent/remove.ts';
import { listRuleLocations } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, silentHost } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';

/** How long a stop waits for a running sync, so that a pod ends within a second. */
const STOP_MS = 800;

/** Removes the agent's rules. */
export async function cleanUp(flags: FlagValues, log: Logger): Promise<void> {
  const locations = await listRuleLocations(dataplaneOptions(flags), silentHost(flags));
  const removals = await removeFromAll(locations, {
    timeoutMs: flags['sync-timeout'],
    signal: new AbortController().signal,
    onRetry: (error, attempt) => log.warn({ attempt }, `trying again: ${error.message}`),
  });
  for (const removal of removals) {
    logRemoval(log, removal);
    if (hasFailed(removal)) log.error({ family: removal.family }, describeRemoval(removal));
  }
  const failed = removals.find(hasFailed);
  if (failed !== undefined) throw failed.error;
}

/**
 * Logs that the agent stops, and makes sure that it does.
 *
 * @param exitCode if a running sync does not end soon
 */
export function stopAtSignal(log: Logger, cleansUp: () => boolean, exitCode: number): void {
  const announce = () => {
    const isCleanedUp = cleansUp();
    log.info(`${stopSignal.reason}: stopping, ${isCleanedUp ? 'removing the rules' : 'the rules stay'}`);
    // This ends a tool that runs. The kernel finishes or refuses its transaction as a whole.
    if (!isCleanedUp) setTimeout(() => process.exit(exitCode), STOP_MS).unref();
  };
  if (stopSignal.aborted) announce();
  else stopSignal.addEventListener('abort', announce);
}

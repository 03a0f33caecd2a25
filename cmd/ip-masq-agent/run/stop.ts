import { describeRemoval, hasFailed, logRemoval, removeFromAll } from '../../../lib/agent/remove.ts';
import { ruleLocationName } from '../../../lib/dataplane/dataplane.ts';
import { listRuleLocations } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { EXIT } from '../exit.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, silentHost } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';

/** How long a stop waits for a running sync, so that a pod ends within a second. */
const STOP_MS = 800;

/** Removes the agent's rules, but not those of another agent, which are in the locations that this process has cleared. */
export async function cleanUp(flags: FlagValues, log: Logger, cleared: ReadonlySet<string>): Promise<void> {
  const locations = await listRuleLocations(dataplaneOptions(flags), silentHost(flags));
  const own = locations.filter((location) => !cleared.has(ruleLocationName(location)));
  const removals = await removeFromAll(own, {
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
    const cleanUp = cleansUp();
    log.info(`${stopSignal.reason}: stopping, ${cleanUp ? 'removing the rules' : 'the rules stay'}`);
    if (cleanUp) {
      // A second signal ends a wait for a busy lock.
      for (const name of ['SIGTERM', 'SIGINT'])
        process.on(name, () => {
          log.warn(`${name} again: the rules may stay; remove them with: ip-masq-agent cleanup`);
          process.exit(EXIT.system);
        });
    } else {
      // This ends a tool that runs. The kernel finishes or refuses its transaction as a whole.
      setTimeout(() => process.exit(exitCode), STOP_MS).unref();
    }
  };
  if (stopSignal.aborted) announce();
  else stopSignal.addEventListener('abort', announce);
}

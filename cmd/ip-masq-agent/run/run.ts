import { syncs } from '../../../lib/agent/loop.ts';
import { describeRemoval, removeAll } from '../../../lib/agent/remove.ts';
import { startWake, Wakes } from '../../../lib/agent/wakes.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { installedDataplanes, openDataplane, ruleCount } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Recorder, Status } from '../../../lib/status/status.ts';
import type { Args } from '../command.ts';
import { runDaemon } from '../daemon.ts';
import { EXIT } from '../exit.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, sourcesOptions } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';
import { collectGarbageSoon } from './collect-garbage.ts';
import type { Leftovers } from './leftovers.ts';
import type { NeighbourWatch } from './neighbour-watch.ts';

/** How long a stop waits for a running sync, so that a pod ends within a second. */
const STOP_MS = 800;

/** Keeps the rules until a signal, or syncs once with --once; returns the exit code. */
export function run(args: Args): Promise<number> {
  const { flags } = args;
  const found: { leftovers?: Leftovers } = {};
  return runDaemon(
    args,
    'the rules on this node do not change',
    (log) => keepRules(flags, log, found),
    async (log) => {
      if (flags['cleanup-on-exit']) await cleanUp(flags, log, found.leftovers);
    },
  );
}

/** Syncs at each wake. The server and the look for leftovers and foreign rules are loaded only after the first sync. */
async function keepRules(flags: FlagValues, log: Logger, found: { leftovers?: Leftovers }): Promise<void> {
  const host = systemHost(flags['sync-timeout']);
  const dataplane = dataplaneOptions(flags);
  const sources = sourcesOptions(flags);
  const recorder = new Recorder();
  const status = new Status(recorder, (policy) => ruleCount(policy, dataplane));
  const wakes = new Wakes(sources.configDir, sources.resyncInterval, log, stopSignal);
  const agent = { sources, syncTimeout: flags['sync-timeout'], open: () => openDataplane(dataplane, host) };
  announceStop(log, flags['cleanup-on-exit']);
  process.on('SIGHUP', () => wakes.add('signal'));

  let neighbours: NeighbourWatch | undefined;
  for await (const sync of syncs(agent, flags.once ? [startWake()] : wakes, status, log, stopSignal)) {
    wakes.interval = sync.interval;
    if (flags.once) {
      const { Leftovers } = await import('./leftovers.ts');
      found.leftovers = new Leftovers(dataplane, host, log, stopSignal);
      const failure = await found.leftovers.look(sync.dataplane, sync.policies);
      if (failure !== undefined) log.warn(failure);
      continue;
    }
    if (neighbours === undefined) {
      await serveStatus(flags, log, status, recorder, () => wakes.interval);
      const { Leftovers } = await import('./leftovers.ts');
      const { NeighbourWatch } = await import('./neighbour-watch.ts');
      found.leftovers = new Leftovers(dataplane, host, log, stopSignal);
      neighbours = new NeighbourWatch(host, log, status, found.leftovers);
      collectGarbageSoon();
    }
    if (sync.changed) collectGarbageSoon();
    if (sync.changed || neighbours.isDue) neighbours.look({ ...sync, chain: flags['masq-chain'] });
  }
}

/** Serves metrics, probes and status. */
async function serveStatus(
  flags: FlagValues,
  log: Logger,
  status: Status,
  recorder: Recorder,
  interval: () => number,
): Promise<void> {
  if (flags['metrics-bind-address'] === '' && flags['scrape-bind-address'] === '') return recorder.discard();
  const { startServer } = await import('./server.ts');
  await startServer({ flags, log, status, recorder, interval });
}

async function cleanUp(flags: FlagValues, log: Logger, leftovers: Leftovers | undefined): Promise<void> {
  const installed = await installedDataplanes(dataplaneOptions(flags), systemHost(flags['sync-timeout']));
  const removals = await removeAll(leftovers?.withoutOthers(installed) ?? installed, {
    timeoutMs: flags['sync-timeout'],
    signal: new AbortController().signal,
    onRetry: (error, attempt) => log.warn({ attempt }, `trying again: ${error.message}`),
  });
  for (const removal of removals) {
    const { family, outcome } = removal;
    if (outcome.kind === 'removed') log.info({ family, rules: outcome.rules }, describeRemoval(removal));
    // A failure in one dataplane does not stop the removal in the others.
    if (outcome.kind === 'failed') log.error({ family }, describeRemoval(removal));
  }
  const failed = removals.flatMap(({ outcome }) => (outcome.kind === 'failed' ? [outcome.error] : []));
  if (failed[0] !== undefined) throw failed[0];
}

/** Logs that the agent stops, and makes sure that it does. */
function announceStop(log: Logger, cleanUp: boolean): void {
  const announce = () => {
    log.info(`${stopSignal.reason}: stopping, ${cleanUp ? 'removing the rules' : 'the rules stay'}`);
    if (cleanUp) {
      // A second signal ends a wait for a busy lock.
      for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => process.exit(EXIT.system));
    } else {
      // The kernel finishes or refuses a running transaction as a whole.
      setTimeout(() => process.exit(EXIT.ok), STOP_MS).unref();
    }
  };
  if (stopSignal.aborted) announce();
  else stopSignal.addEventListener('abort', announce);
}

import { Agent } from '../../../lib/agent/loop.ts';
import { describeRemoval, removeAll } from '../../../lib/agent/remove.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { openDataplane, openPlaces } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Recorder } from '../../../lib/status/recorder.ts';
import { Status } from '../../../lib/status/status.ts';
import type { Args } from '../command.ts';
import { runDaemon } from '../daemon.ts';
import { EXIT } from '../exit.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, sourcesOptions } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';
import { settleSoon } from './collect-garbage.ts';

/** A stop that comes in the middle of a sync waits so long for it, so that a pod is gone within a second. */
const STOP_MS = 800;

/** Keeps the rules until a signal ends it (or once); returns the exit code. */
export function run(args: Args): Promise<number> {
  const { flags } = args;
  const work = async (log: Logger) => {
    const recorder = new Recorder();
    const status = new Status(recorder);
    const agent = createAgent(flags, log, status);
    announceStop(log, flags['cleanup-on-exit']);
    process.on('SIGHUP', () => agent.reload());
    if (flags.once) await agent.sync({ reason: 'start', since: performance.now() }, stopSignal);
    else await agent.run(stopSignal, () => serveStatus(flags, log, agent, status, recorder), settleSoon);
  };
  return runDaemon(args, 'the rules applied last stay', work, async (log) => {
    if (flags['cleanup-on-exit']) await cleanUp(flags, log);
  });
}

function createAgent(flags: FlagValues, log: Logger, status: Status): Agent {
  const host = systemHost(flags['sync-timeout']);
  const options = { ...sourcesOptions(flags), syncTimeout: flags['sync-timeout'] };
  const dataplanes = {
    open: () => openDataplane(dataplaneOptions(flags), host),
    places: () => openPlaces(dataplaneOptions(flags), host),
  };
  return new Agent(options, dataplanes, log, status);
}

/** Tells whoever asks how the agent is. The modules for it are loaded only now that the rules are in the kernel. */
async function serveStatus(
  flags: FlagValues,
  log: Logger,
  agent: Agent,
  status: Status,
  recorder: Recorder,
): Promise<void> {
  const address = flags['metrics-bind-address'];
  if (address === '') return recorder.discard();
  const { startServer } = await import('./server.ts');
  await startServer({ flags, log, agent, status, recorder });
}

async function cleanUp(flags: FlagValues, log: Logger): Promise<void> {
  const places = await openPlaces(dataplaneOptions(flags), systemHost(flags['sync-timeout']));
  const removals = await removeAll(places, {
    timeoutMs: flags['sync-timeout'],
    signal: new AbortController().signal,
    onRetry: (error, attempt) => log.warn({ attempt }, `trying again: ${error.message}`),
  });
  for (const removal of removals) {
    const { family, outcome } = removal;
    if (outcome.kind === 'removed') log.info({ family, rules: outcome.rules }, describeRemoval(removal));
    // What could not be removed in one place is a failure, but only after all others were tried.
    if (outcome.kind === 'failed') log.error({ family }, describeRemoval(removal));
  }
  const failed = removals.flatMap(({ outcome }) => (outcome.kind === 'failed' ? [outcome.error] : []));
  if (failed[0] !== undefined) throw failed[0];
}

/** Says that the agent stops, and sees to it that it does. */
function announceStop(log: Logger, cleanUp: boolean): void {
  const announce = () => {
    log.info(`${stopSignal.reason}: stopping, ${cleanUp ? 'removing the rules' : 'the rules stay'}`);
    if (cleanUp) {
      // Whoever asks twice does not want to wait for a busy lock.
      for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => process.exit(EXIT.system));
    } else {
      // A transaction that still runs is the kernel's to finish or refuse as a whole.
      setTimeout(() => process.exit(EXIT.ok), STOP_MS).unref();
    }
  };
  if (stopSignal.aborted) announce();
  else stopSignal.addEventListener('abort', announce);
}

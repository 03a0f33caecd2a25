import { takeLock } from '../../../lib/agent/lock.ts';
import { syncs } from '../../../lib/agent/loop.ts';
import { startWake, Wakes } from '../../../lib/agent/wakes.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { openDataplane, ruleCount } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Recorder, Status } from '../../../lib/status/status.ts';
import { sharedFlags } from '../agent-flags.ts';
import { buildInfo } from '../build-info.ts';
import type { Args } from '../command.ts';
import { runDaemon } from '../daemon.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, sourcesOptions } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';
import { collectGarbageSoon } from './collect-garbage.ts';
import type { Leftovers } from './leftovers.ts';
import type { NeighbourWatch } from './neighbour-watch.ts';
import { announceStop, cleanUp } from './stop.ts';
import { findOwnRules, whatStays } from './without-config.ts';

/** What the end of the process must know. */
interface State {
  /** Whether no other agent holds the network namespace. */
  mayWrite: boolean;
  leftovers?: Leftovers;
}

/** Keeps the rules until a signal, or syncs once with --once; returns the exit code. */
export function run(args: Args): Promise<number> {
  const { flags, texts } = args;
  const state: State = { mayWrite: false };
  return runDaemon(
    args,
    () => whatStays(flags),
    (log) => keepRules(flags, sharedFlags(texts), log, state),
    async (log) => {
      if (flags['cleanup-on-exit'] && state.mayWrite) await cleanUp(flags, log, state.leftovers);
    },
  );
}

/** Syncs at each wake. The server and the look for leftovers and foreign rules are loaded only after the first sync. */
async function keepRules(
  flags: FlagValues,
  shared: readonly string[],
  log: Logger,
  state: State,
): Promise<void> {
  const host = systemHost(flags['sync-timeout']);
  const dataplane = dataplaneOptions(flags);
  const sources = sourcesOptions(flags);
  const recorder = new Recorder();
  recordBuild(recorder, '');
  recorder.record((metrics) => metrics.add('namespace_lock_failures_total', {}, 0));
  const status = new Status(recorder, (policy) => ruleCount(policy, dataplane));
  const wakes = new Wakes(sources.configDir, sources.resyncInterval, log, stopSignal);
  const lock = async () => {
    if (state.mayWrite) return;
    await takeLock({
      introduction: { version: buildInfo().version, flags: shared },
      timeoutMs: flags['sync-timeout'],
      log,
      signal: stopSignal,
      onFailure: () => recorder.record((metrics) => metrics.add('namespace_lock_failures_total', {})),
    });
    state.mayWrite = true;
  };
  const open = async () => {
    const opened = await openDataplane(dataplane, host);
    recordBuild(recorder, opened.name);
    return opened;
  };
  const keeps = flags['on-invalid-config'] === 'keep' && !flags.once;
  const keepIf = async () => {
    if ((await findOwnRules(flags)) === false) return false;
    await lock();
    return true;
  };
  const agent = {
    sources,
    ...(keeps && { keepIf }),
    syncTimeout: flags['sync-timeout'],
    lock,
    open,
  };
  announceStop(log, flags['cleanup-on-exit']);
  process.on('SIGHUP', () => wakes.add('signal'));

  let isServing = false;
  let neighbours: NeighbourWatch | undefined;
  for await (const step of syncs(agent, flags.once ? [startWake()] : wakes, status, log, stopSignal)) {
    wakes.interval = step.interval;
    if (!isServing && !flags.once) await serveStatus(flags, log, status, recorder, () => wakes.interval);
    isServing = true;
    if (step.kind === 'held') continue;
    if (flags.once) {
      const { Leftovers } = await import('./leftovers.ts');
      state.leftovers = new Leftovers(dataplane, host, log, stopSignal);
      const failure = await state.leftovers.look(step.dataplane, step.policies);
      if (failure !== undefined) log.warn(failure);
      continue;
    }
    if (neighbours === undefined) {
      const { Leftovers } = await import('./leftovers.ts');
      const { NeighbourWatch } = await import('./neighbour-watch.ts');
      state.leftovers = new Leftovers(dataplane, host, log, stopSignal);
      neighbours = new NeighbourWatch(host, log, status, state.leftovers);
      collectGarbageSoon();
    }
    if (step.changed) collectGarbageSoon();
    if (step.changed || neighbours.isDue) neighbours.look({ ...step, chain: flags['masq-chain'] });
  }
}

/** @param dataplane its name; empty before it is found */
function recordBuild(recorder: Recorder, dataplane: string): void {
  const { version, commit, node } = buildInfo();
  const labels = { version, commit, nodejs: node, dataplane };
  recorder.record((metrics) => metrics.replace('build_info', [{ labels, value: 1 }]));
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

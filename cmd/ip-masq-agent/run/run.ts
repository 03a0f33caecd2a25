import type { Introduction } from '../../../lib/agent/holder.ts';
import { LastValidFile, removeLastValid } from '../../../lib/agent/last-valid.ts';
import { keepConfigOrRules } from '../../../lib/agent/load.ts';
import { NamespaceLock } from '../../../lib/agent/lock.ts';
import { type Sync, syncs } from '../../../lib/agent/loop.ts';
import type { AgentOptions } from '../../../lib/agent/options.ts';
import { startTrigger, Triggers } from '../../../lib/agent/triggers.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { Netlink, ownSockets } from '../../../lib/dataplane/netlink.ts';
import { dataplaneChooser, prepareDataplane } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { usableSourceAddresses } from '../../../lib/node/own-addresses.ts';
import { StatusObserver } from '../../../lib/status/observer.ts';
import { Recorder } from '../../../lib/status/recorder.ts';
import { agentState } from '../../../lib/status/state.ts';
import { ExhaustedError, SystemError } from '../../../lib/text/error.ts';
import { sharedFlags } from '../agent-flags.ts';
import { buildInfo } from '../build-info.ts';
import type { Args } from '../command.ts';
import { type Daemon, runDaemon } from '../daemon.ts';
import { EXIT } from '../exit.ts';
import { dataplaneOptions, keptFamilies, readerOptions } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';
import { finishOnce } from './once.ts';
import { cleanUp, stopAtSignal } from './stop.ts';
import { createWatchers, type Surroundings } from './watchers.ts';
import { effectOnNode, familiesWithoutRules, mayHaveRules } from './without-config.ts';

/** Keeps the rules until a signal, or syncs once with --once; returns the exit code: 1 if a signal interrupts --once. */
export function run(args: Args): Promise<number> {
  return runDaemon(
    args,
    () => effectOnNode(args.flags),
    (log) => startAgent(args, log),
  );
}

function startAgent(args: Args, log: Logger): Daemon {
  const { flags } = args;
  const recorder = new Recorder();
  const status = new StatusObserver(recorder, buildInfo());
  const triggers = new Triggers(flags['config-dir'], flags['resync-interval'], log, stopSignal);
  process.on('SIGHUP', () => triggers.add('signal'));
  const otherAgent = Promise.withResolvers<never>();
  const lock = new NamespaceLock({
    introduce: () => introduce(args, status, triggers),
    timeoutMs: flags['sync-timeout'],
    log,
    signal: stopSignal,
    onFailure: () => recorder.record((metrics) => metrics.add('namespace_lock_failures_total', {})),
    onOtherAgent: otherAgent.reject,
  });
  recorder.record((metrics) => metrics.add('namespace_lock_failures_total', {}, 0));
  // Until the lock is decided, the rules may be those of another agent.
  const cleansUp = () => flags['cleanup-on-exit'] && lock.isDecided;
  stopAtSignal(log, cleansUp, flags.once ? EXIT.system : EXIT.ok);
  const netlink = createNetlink(log, recorder);
  const host = systemHost(flags['sync-timeout'], netlink);
  const dataplane = dataplaneOptions(flags);
  prepareDataplane(dataplane, host);
  const store = lastValidFile(flags['state-dir'], log, recorder);
  const keeps = flags['on-invalid-config'] === 'keep' && !flags.once;
  const agent: AgentOptions = {
    reader: {
      ...readerOptions(flags),
      keep: keeps ? keepConfigOrRules(() => mayHaveRules(flags)) : undefined,
      readLastValid: async () => {
        const families = store === undefined ? [] : await familiesWithoutRules(flags);
        return families.length > 0 ? store?.read(families) : undefined;
      },
      graceMs: flags['vanished-grace'],
    },
    syncTimeout: flags['sync-timeout'],
    ownAddresses: addressReader(log),
    lock: () => lock.take(),
    chooseDataplane: dataplaneChooser(dataplane, host),
  };
  const cleared = new Set<string>();
  const surroundings = { args, log, recorder, status, triggers, netlink, host, cleared };
  const syncUntilStopped = async () => {
    const finish = (sync: Sync) => finishOnce(surroundings, sync);
    const follow = flags.once ? finish : createWatchers(surroundings);
    const source = flags.once ? [startTrigger()] : triggers;
    let isFirst = true;
    for await (const step of syncs(agent, source, status, log, stopSignal)) {
      triggers.interval = step.interval;
      // The first sync does not wait until the server is loaded.
      if (isFirst && !flags.once) await serveStatus(surroundings);
      isFirst = false;
      if (step.kind === 'no valid config') continue;
      await follow(step);
      // A disk that hangs must not stop the agent.
      const isKept = step.inSync ? store?.keep(step.configFiles) : undefined;
      if (flags.once) await isKept;
    }
  };
  return {
    work: Promise.race([syncUntilStopped(), otherAgent.promise]),
    async afterStop() {
      if (!flags['cleanup-on-exit'] || !lock.isDecided) return;
      if (!(await lock.isAlone())) return log.warn('the rules stay: another agent has taken the lock since');
      await cleanUp(flags, log, cleared);
      const removed = store && (await removeLastValid(flags['state-dir']));
      if (removed !== undefined) log.info(removed);
    },
  };
}

/** Where the last valid config outlives the process; undefined if no directory is named. */
function lastValidFile(dir: string, log: Logger, recorder: Recorder): LastValidFile | undefined {
  if (dir === '') return undefined;
  return new LastValidFile(dir, log, (isKept) =>
    recorder.record((metrics) => metrics.set('last_valid_config_kept', {}, isKept ? 1 : 0)),
  );
}

/** Reads the node's addresses. If the container refuses that, the rules go without them: the kernel then chooses. */
function addressReader(log: Logger): AgentOptions['ownAddresses'] {
  const notices = new Notices(log);
  return () => {
    try {
      const addresses = usableSourceAddresses();
      notices.updateWarnings([]);
      return addresses;
    } catch (error) {
      if (!(error instanceof SystemError) || error instanceof ExhaustedError) throw error;
      notices.updateWarnings([error.message]);
      return [];
    }
  };
}

async function serveStatus({ args, log, status, recorder, host, triggers }: Surroundings): Promise<void> {
  const { flags } = args;
  if (flags['metrics-bind-address'] === '' && flags['scrape-bind-address'] === '') return recorder.discard();
  const { startServer } = await import('./server.ts');
  await startServer({ flags, log, status, recorder, host, interval: () => triggers.interval });
}

/** What the agent says to commands on this node. */
function introduce({ flags, flagTexts }: Args, status: StatusObserver, triggers: Triggers): Introduction {
  return {
    version: buildInfo().version,
    flags: sharedFlags(flagTexts, status.dataplane),
    state: agentState({ status, families: keptFamilies(flags), interval: () => triggers.interval }),
  };
}

/** nf_tables over netlink. Tells the log and the metrics whether it works. */
function createNetlink(log: Logger, recorder: Recorder): Netlink {
  const notices = new Notices(log);
  return new Netlink(ownSockets, (failure) => {
    recorder.record((metrics) => metrics.set('netlink_active', {}, failure === undefined ? 1 : 0));
    const texts = failure === undefined ? [] : [`netlink fails: ${failure.message}; ${WITHOUT_NETLINK}`];
    notices.updateWarnings(texts, { atEnd: 'netlink works again' });
  });
}

const WITHOUT_NETLINK =
  'nftables does not work without it; iptables does, but the agent finds changes that other programs make only at the next resync';

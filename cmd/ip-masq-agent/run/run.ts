import { setTimeout as delay } from 'node:timers/promises';
import type { Introduction } from '../../../lib/agent/holder.ts';
import { KeptConfigFile, removeKeptConfig } from '../../../lib/agent/kept-config.ts';
import { removeLeftovers } from '../../../lib/agent/leftovers.ts';
import { takeLock } from '../../../lib/agent/lock.ts';
import { type Round, rounds } from '../../../lib/agent/loop.ts';
import type { AgentOptions } from '../../../lib/agent/options.ts';
import { Reasons } from '../../../lib/agent/reasons.ts';
import { Knowledge } from '../../../lib/agent/state.ts';
import { directoryWatch } from '../../../lib/agent/watch-directory.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { Netlink, ownSockets } from '../../../lib/dataplane/netlink.ts';
import { dataplaneChooser } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { collectGarbageSoon } from '../../../lib/node/collect-garbage.ts';
import { usableSourceAddresses } from '../../../lib/node/own-addresses.ts';
import { agentState } from '../../../lib/status/status-json.ts';
import { ExhaustedError, SystemError } from '../../../lib/text/error.ts';
import { sharedFlags } from '../agent-flags.ts';
import { buildInfo } from '../build-info.ts';
import type { Args } from '../command.ts';
import { type Daemon, runDaemon } from '../daemon.ts';
import { EXIT } from '../exit.ts';
import { nodeName } from '../flags.ts';
import { dataplaneOptions, keptFamilies, readerOptions } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';
import { kernelWatch, leftoverOptions, type Parts, startBeside } from './beside.ts';
import { cleanUp, stopAtSignal } from './stop.ts';
import { effectOnNode, familiesWithoutRules } from './without-config.ts';

/** Keeps the rules until a signal, or syncs once with --once; returns the exit code: 1 if a signal interrupts --once. */
export function run(args: Args): Promise<number> {
  return runDaemon(
    args,
    () => effectOnNode(args.flags),
    (log) => startAgent(args, log),
  );
}

/** Makes the parts of the agent, and starts the loop. */
function startAgent(args: Args, log: Logger): Daemon {
  const { flags } = args;
  const agent = new Knowledge();
  const reasons = new Reasons();
  process.on('SIGHUP', () => reasons.add('signal'));
  const notices = new Notices(log);
  const netlink = createNetlink(agent, notices);
  const host = systemHost(flags['sync-timeout'], netlink);
  const store = flags['state-dir'] === '' ? undefined : new KeptConfigFile(flags['state-dir'], notices);
  if (store) agent.set({ keptFiles: [] });
  const parts: Parts = { flags, agent, reasons, notices, host, netlink, store };
  // Until the lock is decided, the rules may be those of another agent.
  const cleansUp = () => flags['cleanup-on-exit'] && agent.state.ownsRules;
  stopAtSignal(log, cleansUp, flags.once ? EXIT.system : EXIT.ok);
  const options = agentOptions(args, parts);
  // Tools run while the config files are read. The first round chooses again, and tells of a failure.
  options.chooseDataplane().catch(() => {});
  const loop = rounds({ options, agent, notices, signal: stopSignal }, reasons);
  return {
    work: flags.once ? syncOnce(loop, parts) : keepSynced(loop, parts),
    async afterStop() {
      if (!cleansUp()) return;
      await cleanUp(flags, log);
      const removed = store && (await removeKeptConfig(flags['state-dir']));
      if (removed !== undefined) log.info(removed);
    },
  };
}

/** Tells everyone of each round. */
async function keepSynced(loop: AsyncIterable<Round>, parts: Parts): Promise<void> {
  const { agent, store } = parts;
  const watchKernel = kernelWatch(parts);
  let count: ((round: Round) => void) | undefined;
  let beside: Awaited<ReturnType<typeof startBeside>> | undefined;
  for await (const round of loop) {
    // The first sync does not wait until the server is loaded.
    count ??= await serveStatus(parts);
    count(round);
    watchKernel();
    if (round.syncs.length === 0) continue;
    if (beside === undefined) collectGarbageSoon();
    beside ??= await startBeside(parts);
    for (const tell of beside) tell(round);
    const { configFiles } = agent.state.inUse ?? {};
    // A disk that hangs must not stop the agent.
    if (round.inSync && store && configFiles)
      void store.keep(configFiles).then((isKept) => agent.set({ keptFiles: isKept ? configFiles : [] }));
  }
}

/**
 * Syncs once.
 *
 * @throws {SystemError} if the kernel does not hold the rules; the signal, if it comes before the sync
 */
async function syncOnce(loop: AsyncIterable<Round>, parts: Parts): Promise<void> {
  for await (const { inSync, blocked } of loop) {
    if (blocked !== undefined) throw blocked;
    if (!inSync)
      throw new SystemError(
        'another program has changed the rules before they were read back: find that program, or run the agent without --once, so that it repairs them',
      );
    const failure = await removeLeftovers(leftoverOptions(parts));
    if (failure !== undefined) parts.notices.log.warn(failure);
    if (parts.store) await keepOrGiveUp(parts.store, parts);
    return;
  }
  stopSignal.throwIfAborted();
}

/** Keeps the config for the next run. A disk that hangs is given up. */
async function keepOrGiveUp(store: KeptConfigFile, { flags, agent, notices }: Parts): Promise<void> {
  const kept = store.keep(agent.state.inUse?.configFiles ?? []);
  const hangs = delay(flags['sync-timeout'], 'hangs', { ref: false });
  if ((await Promise.race([kept, hangs])) === 'hangs')
    notices.log.warn('the last valid config is not written: the disk of --state-dir hangs');
}

function agentOptions(args: Args, { flags, agent, reasons, notices, host, store }: Parts): AgentOptions {
  const watch = () => directoryWatch(flags['config-dir'], () => reasons.add('change'), notices, stopSignal);
  return {
    reader: { ...readerOptions(flags), graceMs: flags['vanished-grace'] },
    syncTimeout: flags['sync-timeout'],
    watchDirectory: flags.once ? () => {} : watch(),
    staysWhileInvalid: flags['on-invalid-config'] === 'keep' && !flags.once,
    rollout: { windowMs: flags.once ? 0 : flags['rollout-window'], node: nodeName() },
    familiesWithoutRules: async (retry) => (store ? await familiesWithoutRules(flags, retry) : []),
    readKept: async () => store?.read(),
    effectOnNode: () => effectOnNode(flags),
    takeLock: (deadline) =>
      takeLock(
        {
          introduce: () => introduce(args, agent),
          timeoutMs: flags['sync-timeout'],
          log: notices.log,
          signal: stopSignal,
        },
        deadline,
      ),
    chooseDataplane: dataplaneChooser(dataplaneOptions(flags), host),
    ownAddresses: addressReader(notices),
  };
}

/** Reads the node's addresses. If the container refuses that, the rules go without them: the kernel then chooses. */
function addressReader(notices: Notices): AgentOptions['ownAddresses'] {
  return () => {
    try {
      const addresses = usableSourceAddresses();
      notices.warn('addresses', []);
      return addresses;
    } catch (error) {
      if (!(error instanceof SystemError) || error instanceof ExhaustedError) throw error;
      notices.warn('addresses', [error.message]);
      return [];
    }
  };
}

/** Starts the server; returns what takes each round into the metrics. */
async function serveStatus(parts: Parts): Promise<(round: Round) => void> {
  const { flags } = parts;
  if (flags['metrics-bind-address'] === '' && flags['scrape-bind-address'] === '') return () => {};
  const { startServer } = await import('./server.ts');
  return startServer(parts);
}

/** What the agent says to commands on this node. */
function introduce({ flags, flagTexts }: Args, { state }: Knowledge): Introduction {
  const resyncInterval = flags['resync-interval'];
  return {
    version: buildInfo().version,
    flags: sharedFlags(flagTexts, state.dataplane),
    state: agentState(state, { build: buildInfo(), families: keptFamilies(flags), resyncInterval }),
  };
}

/** nf_tables over netlink. Tells whether it works. */
function createNetlink(agent: Knowledge, notices: Notices): Netlink {
  return new Netlink(ownSockets, (failure) => {
    agent.set({ netlink: failure === undefined ? 'works' : 'fails' });
    const texts = failure === undefined ? [] : [`netlink fails: ${failure.message}; ${WITHOUT_NETLINK}`];
    notices.warn('netlink', texts, 'netlink works again');
  });
}

const WITHOUT_NETLINK =
  'nftables does not work without it; iptables does, but the agent then finds changes of other programs only at the next resync';

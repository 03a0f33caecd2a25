import type { Introduction } from '../../../lib/agent/holder.ts';
import { warnOfFight } from '../../../lib/agent/kernel-events.ts';
import { NamespaceLock } from '../../../lib/agent/lock.ts';
import { type AgentOptions, type Sync, syncs, type TriggerResult } from '../../../lib/agent/loop.ts';
import { startTrigger, Triggers } from '../../../lib/agent/triggers.ts';
import { type Host, systemHost } from '../../../lib/dataplane/host.ts';
import { Netlink, ownSockets } from '../../../lib/dataplane/netlink.ts';
import { openDataplane, watchedTables } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { collectGarbageSoon } from '../../../lib/node/collect-garbage.ts';
import { cpuTime } from '../../../lib/node/cpu-time.ts';
import { usableSourceAddresses } from '../../../lib/node/own-addresses.ts';
import { flowVerdict } from '../../../lib/policy/policy.ts';
import { StatusObserver } from '../../../lib/status/observer.ts';
import { Recorder } from '../../../lib/status/recorder.ts';
import { agentState } from '../../../lib/status/state.ts';
import { ExhaustedError, SystemError } from '../../../lib/text/error.ts';
import { watchAddresses } from '../../../lib/watchers/address-changes.ts';
import type { FlowWatch } from '../../../lib/watchers/flow-watch.ts';
import type { ForeignWatch } from '../../../lib/watchers/foreign-watch.ts';
import type { Leftovers } from '../../../lib/watchers/leftovers.ts';
import { sharedFlags } from '../agent-flags.ts';
import { buildInfo } from '../build-info.ts';
import type { Args } from '../command.ts';
import { type Daemon, runDaemon } from '../daemon.ts';
import { commandHost, dataplaneOptions, keptFamilies, loadOptions, podFinder } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';
import { removeStateOf, stateOf } from './state.ts';
import { announceStop, cleanUp } from './stop.ts';
import { effectOnNode, findOwnRules } from './without-config.ts';

/** Keeps the rules until a signal, or syncs once with --once; returns the exit code. */
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
  const loading = loadOptions(flags);
  const triggers = new Triggers(loading.configDir, loading.resyncInterval, log, stopSignal);
  process.on('SIGHUP', () => triggers.add('signal'));
  const otherAgent = Promise.withResolvers<never>();
  const lock = new NamespaceLock({
    introduction: introductionOf(args, status, triggers),
    timeoutMs: flags['sync-timeout'],
    log,
    signal: stopSignal,
    onFailure: () => recorder.record((metrics) => metrics.add('namespace_lock_failures_total', {})),
    onOtherAgent: otherAgent.reject,
  });
  recorder.record((metrics) => metrics.add('namespace_lock_failures_total', {}, 0));
  // Until the lock is decided, the rules may be those of another agent.
  announceStop(log, () => flags['cleanup-on-exit'] && lock.isDecided);
  const netlink = flags.netlink === 'off' ? undefined : openNetlink(log, recorder);
  const host = systemHost(flags['sync-timeout'], netlink);
  const dataplane = dataplaneOptions(flags);
  const state = stateOf(flags, log, recorder);
  const keeps = flags['on-invalid-config'] === 'keep' && !flags.once;
  const agent: AgentOptions = {
    loading,
    // Rules that cannot be read may be there.
    ...(keeps && { hasRulesToKeep: async () => (await findOwnRules(flags)) !== false }),
    ...(state && { lastValid: state }),
    vanishedGraceMs: flags['vanished-grace'],
    syncTimeout: flags['sync-timeout'],
    ownAddresses: addressReader(log),
    cpuTime,
    lock: () => lock.take(),
    open: () => openDataplane(dataplane, host),
  };
  const cleared = new Set<string>();
  const surroundings = { args, log, recorder, status, triggers, netlink, host, cleared };
  const keepRules = async () => {
    const after = flags.once ? afterOnly(surroundings) : afterEach(surroundings);
    const all = flags.once ? [startTrigger()] : triggers;
    for await (const step of syncs(agent, all, status, log, stopSignal)) {
      await after(step);
      if (step.kind === 'synced') await state?.keep(step);
    }
  };
  return {
    work: Promise.race([keepRules(), otherAgent.promise]),
    async afterStop() {
      if (!flags['cleanup-on-exit'] || !(await lock.isAlone())) return;
      await cleanUp(flags, log, cleared);
      const removed = await removeStateOf(flags);
      if (removed !== undefined) log.info(removed);
    },
  };
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

/** What the agent says to commands on this node. It is read at each answer: the dataplane and the state change. */
function introductionOf(
  { flags, flagTexts }: Args,
  status: StatusObserver,
  triggers: Triggers,
): Introduction {
  const families = keptFamilies(flags);
  return {
    version: buildInfo().version,
    get flags() {
      return sharedFlags(flagTexts, status.dataplane);
    },
    get state() {
      return agentState({ status, families, interval: () => triggers.interval });
    },
  };
}

/** What goes on beside the loop, and what it needs. */
interface Surroundings {
  readonly args: Args;
  readonly log: Logger;
  readonly recorder: Recorder;
  readonly status: StatusObserver;
  readonly triggers: Triggers;
  readonly netlink: Netlink | undefined;
  readonly host: Host;
  /** The names of the rule locations in which this process has removed leftovers: what is there now is another agent's. */
  readonly cleared: Set<string>;
}

/** What follows the only sync of --once. */
function afterOnly(surroundings: Surroundings): (step: TriggerResult) => Promise<void> {
  return async (step) => {
    if (step.kind === 'no valid config') return;
    if (!step.inSync)
      throw new SystemError(
        'another program has changed the rules before they were read back: find it, or run without --once, which repairs them',
      );
    const leftovers = await openLeftovers(surroundings, step);
    const failure = await leftovers.removeOnce(step.dataplane, step.policies);
    if (failure !== undefined) surroundings.log.warn(failure);
  };
}

/** What follows each sync. The server and the watchers are loaded only after the first one. */
function afterEach(surroundings: Surroundings): (step: TriggerResult) => Promise<void> {
  const { log, triggers, recorder } = surroundings;
  const { flags } = surroundings.args;
  const addresses = flags.netlink === 'off' ? undefined : watchAddresses(triggers, log, stopSignal);
  let isServing = false;
  let watch: Watchers | undefined;
  return async (step) => {
    triggers.interval = step.interval;
    if (!isServing) await serveStatus(surroundings);
    isServing = true;
    if (step.kind === 'no valid config') return;
    if (flags['invalid-packets'] === 'drop') {
      const hasNoEffect = step.dataplane.iptables !== undefined;
      recorder.record((metrics) => metrics.set('invalid_packets_not_dropped', {}, hasNoEffect ? 1 : 0));
    }
    triggers.kernel.onSync({ ...step, isRepair: step.driftBy !== undefined });
    if (step.driftBy !== undefined) warnOfFight(triggers.kernel.repairsInRow, step.driftBy, log);
    addresses?.(step.policies);
    const flow = flowVerdict(step.policies);
    if (watch === undefined) {
      watch = await openWatchers(surroundings, step);
      // What a run with --stale-flows=report has counted is deleted now, although nothing has changed.
      watch.flows?.read(flow, step.changed || flags['stale-flows'] === 'delete-udp');
      collectGarbageSoon();
    } else if (step.newVerdicts) watch.flows?.read(flow);
    if (step.changed) collectGarbageSoon();
    if (step.changed || watch.foreign.isDue) watch.foreign.read({ ...step, chain: flags['masq-chain'] });
  };
}

/** What watches the node beside the loop. */
interface Watchers {
  readonly foreign: ForeignWatch;
  readonly flows: FlowWatch | undefined;
}

async function openWatchers(surroundings: Surroundings, step: Sync): Promise<Watchers> {
  const { log, status, triggers, netlink } = surroundings;
  const { flags } = surroundings.args;
  const leftovers = await openLeftovers(surroundings, step);
  if (flags['to-ports'].length > 0 && step.policies.some(({ from }) => from.length === 0))
    log.info(NODE_PORTS);
  const { createForeignWatch } = await import('../../../lib/watchers/foreign-watch.ts');
  const foreign = createForeignWatch({
    host: commandHost(flags),
    log,
    status,
    leftovers,
    accepted: flags['accept-foreign'],
    findPods: podFinder(flags),
    signal: stopSignal,
  });
  const { dataplane } = step;
  // In legacy mode no event tells of the agent's rules.
  if (netlink !== undefined && dataplane.hearsChanges) {
    triggers.kernel.attach(dataplane);
    void triggers.watchKernel(netlink, watchedTables(dataplaneOptions(flags)));
  }
  return { foreign, flows: await watchFlows(surroundings, step) };
}

async function openLeftovers(
  { args: { flags }, log, host, cleared }: Surroundings,
  { dataplane }: Sync,
): Promise<Leftovers> {
  const { Leftovers } = await import('../../../lib/watchers/leftovers.ts');
  // In legacy mode netlink is for what is beside the agent's work alone.
  const others = dataplane.hearsChanges ? host : commandHost(flags);
  return new Leftovers(dataplaneOptions(flags), others, log, stopSignal, cleared);
}

/** Watches for flows that keep an old verdict, and for ports that run out; undefined if that is off. */
async function watchFlows(
  { args: { flags, flagTexts }, log, recorder }: Surroundings,
  { dataplane, policies }: Sync,
): Promise<FlowWatch | undefined> {
  const mode = flags['stale-flows'];
  if (mode === 'off') return undefined;
  if (!dataplane.hearsChanges) {
    if (flagTexts.has('stale-flows'))
      log.warn(`--stale-flows=${mode} has no effect: it needs netlink, and not legacy mode`);
    return undefined;
  }
  const { createFlowWatch } = await import('../../../lib/watchers/flow-watch.ts');
  const families = policies.map(({ family }) => family);
  return createFlowWatch({ mode, families, toPorts: flags['to-ports'] }, log, recorder);
}

/** nf_tables over netlink. Tells the log and the metrics whether it works. */
function openNetlink(log: Logger, recorder: Recorder): Netlink {
  const notices = new Notices(log);
  return new Netlink(ownSockets, (failure) => {
    recorder.record((metrics) => metrics.set('netlink_active', {}, failure === undefined ? 1 : 0));
    const texts = failure === undefined ? [] : [`netlink fails: ${failure.message}; ${WITHOUT_NETLINK}`];
    notices.updateWarnings(texts, { atEnd: 'netlink works again' });
  });
}

const NODE_PORTS =
  "--to-ports also changes the ports of the node's own connections to the outside, such as mounts of NFS from ports below 1024; to leave these alone, list the ranges of pods in masqueradeFromCIDRs";

const WITHOUT_NETLINK =
  'nftables does not work without it; iptables does, but the agent finds changes that other programs make only at the next resync';

async function serveStatus({ args, log, status, recorder, host, triggers }: Surroundings): Promise<void> {
  const { flags } = args;
  if (flags['metrics-bind-address'] === '' && flags['scrape-bind-address'] === '') return recorder.discard();
  const { startServer } = await import('./server.ts');
  await startServer({ flags, log, status, recorder, host, interval: () => triggers.interval });
}

import { Repairs, watchDrift } from '../../../lib/agent/drift.ts';
import { NamespaceLock } from '../../../lib/agent/lock.ts';
import { type Sync, syncs } from '../../../lib/agent/loop.ts';
import { startWake, Wakes } from '../../../lib/agent/wakes.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { Netlink, ownSockets } from '../../../lib/dataplane/netlink.ts';
import { openDataplane, ruleCount } from '../../../lib/dataplane/open.ts';
import { ownAddressList } from '../../../lib/flows/own-addresses.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { flowVerdict } from '../../../lib/policy/policy.ts';
import { Recorder, Status } from '../../../lib/status/status.ts';
import { sharedFlags } from '../agent-flags.ts';
import { buildInfo } from '../build-info.ts';
import type { Args } from '../command.ts';
import { runDaemon } from '../daemon.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, sourcesOptions } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';
import { AddressChanges } from './address-changes.ts';
import { collectGarbageSoon } from './collect-garbage.ts';
import type { FlowWatch } from './flow-watch.ts';
import type { Leftovers } from './leftovers.ts';
import type { NeighbourWatch } from './neighbour-watch.ts';
import { announceStop, cleanUp } from './stop.ts';
import { findOwnRules, whatStays } from './without-config.ts';

/** What the end of the process must know. */
interface Ending {
  readonly lock: NamespaceLock;
  leftovers?: Leftovers;
}

/** Keeps the rules until a signal, or syncs once with --once; returns the exit code. */
export function run(args: Args): Promise<number> {
  const { flags, texts } = args;
  let ending: Ending | undefined;
  return runDaemon(
    args,
    () => whatStays(flags),
    (log) => {
      const recorder = new Recorder();
      const other = Promise.withResolvers<never>();
      const lock = new NamespaceLock({
        introduction: { version: buildInfo().version, flags: sharedFlags(texts) },
        timeoutMs: flags['sync-timeout'],
        log,
        signal: stopSignal,
        onFailure: () => recorder.record((metrics) => metrics.add('namespace_lock_failures_total', {})),
        onOther: other.reject,
      });
      ending = { lock };
      return Promise.race([keepRules(args, log, recorder, ending), other.promise]);
    },
    async (log) => {
      if (flags['cleanup-on-exit'] && (await ending?.lock.isAlone()))
        await cleanUp(flags, log, ending?.leftovers);
    },
  );
}

/** Syncs at each wake. The server and the look for leftovers and foreign rules are loaded only after the first sync. */
async function keepRules(
  { flags, texts }: Args,
  log: Logger,
  recorder: Recorder,
  ending: Ending,
): Promise<void> {
  const tools = systemHost(flags['sync-timeout']);
  const netlink = flags.netlink === 'off' ? undefined : openNetlink(log, recorder);
  const host = systemHost(flags['sync-timeout'], netlink);
  const dataplane = dataplaneOptions(flags);
  const sources = sourcesOptions(flags);
  recordBuild(recorder, '');
  recorder.record((metrics) => metrics.add('namespace_lock_failures_total', {}, 0));
  const status = new Status(recorder, (policy) => ruleCount(policy, dataplane));
  const wakes = new Wakes(sources.configDir, sources.resyncInterval, log, stopSignal);
  const open = async () => {
    const opened = await openDataplane(dataplane, host);
    recordBuild(recorder, opened.name);
    // In the search for the mode, netlink may have been asked.
    if (opened.iptables?.mode === 'legacy')
      recorder.record((metrics) => metrics.replace('netlink_active', []));
    return opened;
  };
  const keeps = flags['on-invalid-config'] === 'keep' && !flags.once;
  const agent = {
    sources,
    ...(keeps && { keepIf: async () => (await findOwnRules(flags)) !== false }),
    syncTimeout: flags['sync-timeout'],
    ownAddresses: ownAddressList,
    lock: () => ending.lock.take(),
    open,
  };
  announceStop(log, () => flags['cleanup-on-exit'] && ending.lock.isDecided);
  process.on('SIGHUP', () => wakes.add('signal'));

  let isServing = false;
  let neighbours: NeighbourWatch | undefined;
  let flows: FlowWatch | undefined;
  const addresses = flags.netlink === 'off' || flags.once ? undefined : new AddressChanges(wakes, log);
  const repairs = new Repairs();
  for await (const step of syncs(agent, flags.once ? [startWake()] : wakes, status, log, stopSignal)) {
    wakes.interval = step.interval;
    if (!isServing && !flags.once) await serveStatus(flags, log, status, recorder, () => wakes.interval);
    isServing = true;
    if (step.kind === 'held') continue;
    addresses?.follow(step.policies);
    // In legacy mode a request over netlink could load modules of nf_tables.
    const others = step.dataplane.compare === undefined ? tools : host;
    if (flags.once) {
      const { Leftovers } = await import('./leftovers.ts');
      ending.leftovers = new Leftovers(dataplane, others, log, stopSignal);
      const failure = await ending.leftovers.look(step.dataplane, step.policies);
      if (failure !== undefined) log.warn(failure);
      continue;
    }
    if (neighbours === undefined) {
      const { Leftovers } = await import('./leftovers.ts');
      const { NeighbourWatch } = await import('./neighbour-watch.ts');
      ending.leftovers = new Leftovers(dataplane, others, log, stopSignal);
      neighbours = new NeighbourWatch(tools, log, status, ending.leftovers, flags['accept-foreign']);
      const families = step.policies.map(({ family }) => family);
      if (netlink !== undefined && step.dataplane.compare !== undefined)
        void watchDrift({
          dataplane: step.dataplane,
          netlink,
          families,
          wakes,
          repairs,
          signal: stopSignal,
        });
      flows = await watchFlows(step, flags, log, recorder, texts.has('stale-flows'));
      flows?.look(flowVerdict(step.policies), step.changed);
      collectGarbageSoon();
    } else if (step.verdictsChanged) flows?.look(flowVerdict(step.policies));
    if (step.drift !== undefined) repairs.note(step.drift, step.interval, log);
    if (step.changed) collectGarbageSoon();
    if (step.changed || neighbours.isDue) neighbours.look({ ...step, chain: flags['masq-chain'] });
  }
}

/** Watches for flows that keep an old verdict, and for ports that run out; undefined if that is off. */
async function watchFlows(
  { dataplane, policies }: Sync,
  flags: FlagValues,
  log: Logger,
  recorder: Recorder,
  isAsked: boolean,
): Promise<FlowWatch | undefined> {
  const mode = flags['stale-flows'];
  if (mode === 'off') return undefined;
  if (dataplane.compare === undefined) {
    if (isAsked) log.warn(`--stale-flows=${mode} has no effect: it needs netlink, and not legacy mode`);
    return undefined;
  }
  const { FlowWatch } = await import('./flow-watch.ts');
  const families = policies.map(({ family }) => family);
  return new FlowWatch({ mode, families, toPorts: flags['to-ports'] }, log, recorder);
}

/** nf_tables over netlink. Tells the log and the metrics whether it works. */
function openNetlink(log: Logger, recorder: Recorder): Netlink {
  let hasFailed = false;
  return new Netlink(ownSockets, (failure) => {
    recorder.record((metrics) => metrics.set('netlink_active', {}, failure === undefined ? 1 : 0));
    if (failure !== undefined) log.warn(`netlink fails: ${failure.message}; ${WITHOUT_NETLINK}`);
    else if (hasFailed) log.info('netlink works again');
    hasFailed = failure !== undefined;
  });
}

const WITHOUT_NETLINK =
  'the agent works through the tools instead, and finds changes that other programs make only at the next resync; --netlink=off turns netlink off';

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

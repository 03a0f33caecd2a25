import { warnOfFight } from '../../../lib/agent/kernel-events.ts';
import type { Sync, TriggerResult } from '../../../lib/agent/loop.ts';
import type { Triggers } from '../../../lib/agent/triggers.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import type { Netlink } from '../../../lib/dataplane/netlink.ts';
import { watchedTables } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { collectGarbageSoon } from '../../../lib/node/collect-garbage.ts';
import { flowVerdict } from '../../../lib/policy/policy.ts';
import type { StatusObserver } from '../../../lib/status/observer.ts';
import type { Recorder } from '../../../lib/status/recorder.ts';
import { SystemError } from '../../../lib/text/error.ts';
import { watchAddresses } from '../../../lib/watchers/address-changes.ts';
import type { FlowWatch } from '../../../lib/watchers/flow-watch.ts';
import type { ForeignWatch } from '../../../lib/watchers/foreign-watch.ts';
import type { Leftovers } from '../../../lib/watchers/leftovers.ts';
import type { Args } from '../command.ts';
import { commandHost, dataplaneOptions, podFinder } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';

/** What goes on beside the loop, and what it needs. */
export interface Surroundings {
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
export function afterOnly(surroundings: Surroundings): (step: TriggerResult) => Promise<void> {
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
export function afterEach(surroundings: Surroundings): (step: TriggerResult) => Promise<void> {
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

const NODE_PORTS =
  "--to-ports also changes the ports of the node's own connections to the outside, such as mounts of NFS from ports below 1024; to leave these alone, list the ranges of pods in masqueradeFromCIDRs";

async function serveStatus({ args, log, status, recorder, host, triggers }: Surroundings): Promise<void> {
  const { flags } = args;
  if (flags['metrics-bind-address'] === '' && flags['scrape-bind-address'] === '') return recorder.discard();
  const { startServer } = await import('./server.ts');
  await startServer({ flags, log, status, recorder, host, interval: () => triggers.interval });
}

import type { Sync } from '../../../lib/agent/loop.ts';
import type { Triggers } from '../../../lib/agent/triggers.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import type { Netlink } from '../../../lib/dataplane/netlink.ts';
import { watchedTables } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { collectGarbageSoon } from '../../../lib/node/collect-garbage.ts';
import { flowVerdict } from '../../../lib/policy/policy.ts';
import type { StatusObserver } from '../../../lib/status/observer.ts';
import type { Recorder } from '../../../lib/status/recorder.ts';
import { watchAddresses } from '../../../lib/watchers/address-changes.ts';
import type { FlowWatch } from '../../../lib/watchers/flow-watch.ts';
import type { ForeignWatch } from '../../../lib/watchers/foreign-watch.ts';
import type { Leftovers } from '../../../lib/watchers/leftovers.ts';
import type { Args } from '../command.ts';
import { dataplaneOptions, podFinder, silentHost } from '../from-flags.ts';
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

/**
 * Watches the node beside the loop, from the first sync on.
 *
 * @returns takes each sync
 */
export function createWatchers(surroundings: Surroundings): (sync: Sync) => Promise<void> {
  const { log, triggers, recorder } = surroundings;
  const { flags } = surroundings.args;
  const addresses = flags.netlink === 'off' ? undefined : watchAddresses(triggers, log, stopSignal);
  let watch: Watchers | undefined;
  return async (sync) => {
    if (flags['invalid-packets'] === 'drop') {
      const hasNoEffect = sync.dataplane.iptables !== undefined;
      recorder.record((metrics) => metrics.set('invalid_packets_not_dropped', {}, hasNoEffect ? 1 : 0));
    }
    triggers.kernel.onSync(sync);
    addresses?.(sync.policies);
    const flow = () => flowVerdict(sync.policies);
    if (watch === undefined) {
      watch = await openWatchers(surroundings, sync);
      // What a run with --stale-flows=report has counted is deleted now, although nothing has changed.
      const isNew = sync.changed || flags['stale-flows'] === 'delete-udp';
      watch.flows?.read(flow(), isNew ? 'change' : 'nothing');
      collectGarbageSoon();
    } else if (sync.newVerdicts) watch.flows?.read(flow(), sync.driftBy === undefined ? 'change' : 'repair');
    if (sync.changed) collectGarbageSoon();
    if (sync.changed || watch.foreign.isDue) watch.foreign.read({ ...sync, chain: flags['masq-chain'] });
  };
}

interface Watchers {
  readonly foreign: ForeignWatch;
  readonly flows: FlowWatch | undefined;
}

async function openWatchers(surroundings: Surroundings, sync: Sync): Promise<Watchers> {
  const { log, status, triggers, netlink } = surroundings;
  const { flags } = surroundings.args;
  const leftovers = await openLeftovers(surroundings, sync);
  if (flags['to-ports'].length > 0 && sync.policies.some(({ from }) => from.length === 0))
    log.info(NODE_PORTS);
  const { createForeignWatch } = await import('../../../lib/watchers/foreign-watch.ts');
  const foreign = createForeignWatch({
    host: silentHost(flags),
    log,
    status,
    leftovers,
    accepted: flags['accept-foreign'],
    findPods: podFinder(flags),
    signal: stopSignal,
  });
  const { dataplane } = sync;
  // In legacy mode no event tells of the agent's rules.
  if (netlink !== undefined && dataplane.hearsChanges) {
    triggers.kernel.setOwnTools(dataplane.iptables);
    void triggers.watchKernel(netlink, watchedTables(dataplaneOptions(flags)));
  }
  return { foreign, flows: await watchFlows(surroundings, sync) };
}

export async function openLeftovers(
  { args: { flags }, log, host, cleared }: Surroundings,
  { dataplane }: Sync,
): Promise<Leftovers> {
  const { Leftovers } = await import('../../../lib/watchers/leftovers.ts');
  // In legacy mode netlink is for what is beside the agent's work alone.
  const others = dataplane.hearsChanges ? host : silentHost(flags);
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

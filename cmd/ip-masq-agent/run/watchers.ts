import type { Sync } from '../../../lib/agent/loop.ts';
import type { Triggers } from '../../../lib/agent/triggers.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import type { Netlink } from '../../../lib/dataplane/netlink.ts';
import { watchedTables } from '../../../lib/dataplane/open.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { collectGarbageSoon } from '../../../lib/node/collect-garbage.ts';
import { flowPolicy } from '../../../lib/policy/policy.ts';
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
  readonly netlink: Netlink;
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
  const { log, triggers, recorder, netlink } = surroundings;
  const { flags } = surroundings.args;
  let watch: Watchers | undefined;
  let latest: Sync | undefined;
  let isKernelWatched = false;
  const onAddresses = () => watch?.flows?.onChange();
  const addresses = watchAddresses(triggers, onAddresses, log, stopSignal);
  process.on('SIGHUP', () => watch?.flows?.readAgain());
  return async (sync) => {
    if (flags['invalid-packets'] === 'drop') {
      const hasNoEffect = sync.dataplane.iptables !== undefined;
      recorder.record((metrics) => metrics.set('invalid_packets_not_dropped', {}, hasNoEffect ? 1 : 0));
    }
    triggers.kernel.onSync(sync);
    triggers.kernel.setOwnTools(sync.dataplane.iptables);
    addresses(sync.policies);
    const isSwitch = latest !== undefined && latest.dataplane !== sync.dataplane;
    latest = sync;
    const policy = () => flowPolicy(sync.policies);
    if (watch === undefined) {
      watch = await openWatchers(surroundings, sync, {
        onRemoval: () => watch?.flows?.read(flowPolicy(latest?.policies ?? []), 'change'),
        readSuspects: async () =>
          (await watch?.foreign.suspects({ ...(latest ?? sync), chain: flags['masq-chain'] })) ?? [],
      });
      // What a run with --stale-flows=report has counted is deleted now, although nothing has changed.
      const isNew = sync.changed || flags['stale-flows'] === 'delete-udp';
      watch.flows?.read(policy(), isNew ? 'change' : 'nothing');
      collectGarbageSoon();
    } else if (sync.changed) watch.flows?.read(policy(), effectOf(sync));
    // In legacy mode no event tells of the agent's rules.
    if (!isKernelWatched && sync.dataplane.hearsChanges) {
      isKernelWatched = true;
      void triggers.watchKernel(netlink, watchedTables(dataplaneOptions(flags)));
    }
    if (sync.changed) collectGarbageSoon();
    if (sync.changed || isSwitch || watch.foreign.isDue)
      watch.foreign.read({ ...sync, chain: flags['masq-chain'] });
  };
}

/** What a sync that has written rules has done to verdicts. */
function effectOf({ newVerdicts, driftBy }: Sync): 'change' | 'repair' | 'nothing' {
  if (!newVerdicts) return 'nothing';
  return driftBy === undefined ? 'change' : 'repair';
}

interface Watchers {
  readonly foreign: ForeignWatch;
  readonly flows: FlowWatch | undefined;
}

/** What one watcher asks of the other. */
interface BetweenWatchers {
  readonly onRemoval: () => void;
  readonly readSuspects: () => Promise<readonly string[]>;
}

async function openWatchers(
  surroundings: Surroundings,
  sync: Sync,
  { onRemoval, readSuspects }: BetweenWatchers,
): Promise<Watchers> {
  const { log, status } = surroundings;
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
    findPods: podFinder(flags),
    onRemoval,
    signal: stopSignal,
  });
  return { foreign, flows: await watchFlows(surroundings, sync, readSuspects) };
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

/** Watches for flows against the policy, and for ports that run out; undefined if that is off. */
async function watchFlows(
  { args: { flags }, log, status }: Surroundings,
  { policies }: Sync,
  readSuspects: BetweenWatchers['readSuspects'],
): Promise<FlowWatch | undefined> {
  const mode = flags['stale-flows'];
  if (mode === 'off') return undefined;
  const { createFlowWatch } = await import('../../../lib/watchers/flow-watch.ts');
  const families = policies.map(({ family }) => family);
  const accepted = flags['accept-masqueraded'];
  const toPorts = flags['to-ports'];
  return createFlowWatch({ mode, families, toPorts, accepted, readSuspects }, log, status);
}

const NODE_PORTS =
  "--to-ports also changes the ports of the node's own connections to the outside, such as mounts of NFS from ports below 1024; to leave these alone, list the ranges of pods in masqueradeFromCIDRs";

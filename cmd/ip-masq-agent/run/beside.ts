import type { KeptConfigFile } from '../../../lib/agent/kept-config.ts';
import { leftoverRemoval } from '../../../lib/agent/leftovers.ts';
import type { Round } from '../../../lib/agent/loop.ts';
import { failureText, oneAtATime } from '../../../lib/agent/one-at-a-time.ts';
import type { Reasons } from '../../../lib/agent/reasons.ts';
import { appliedPolicies, type Knowledge } from '../../../lib/agent/state.ts';
import { watchAddresses, watchKernel } from '../../../lib/agent/watch-node.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import type { Netlink } from '../../../lib/dataplane/netlink.ts';
import { watchedTables } from '../../../lib/dataplane/open.ts';
import type { FlowWatch } from '../../../lib/flows/watch.ts';
import type { Notices } from '../../../lib/log/notices.ts';
import { collectGarbageSoon } from '../../../lib/node/collect-garbage.ts';
import { localKey, usableSourceAddresses } from '../../../lib/node/own-addresses.ts';
import { areCompiledFor } from '../../../lib/policy/policy.ts';
import { SystemError } from '../../../lib/text/error.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, keptFamilies, podFinder, silentHost } from '../from-flags.ts';
import { stopSignal } from '../signals.ts';

/** What the loop, and what goes on beside it, work with. */
export interface Parts {
  readonly flags: FlagValues;
  readonly agent: Knowledge;
  readonly reasons: Reasons;
  readonly notices: Notices;
  readonly host: Host;
  readonly netlink: Netlink;
  /** Keeps the config in use for the next run; undefined without a state directory. */
  readonly store: KeptConfigFile | undefined;
}

/** Takes each round that has synced. */
type Beside = (round: Round) => void;

/** Nothing tells when routes and links change, so they are read again after this time. */
const READ_AGAIN_MS = 300_000;

/** Begins, after the first sync, what goes on beside the loop: sources of reasons, and readings of the node. */
export async function startBeside(parts: Parts): Promise<readonly Beside[]> {
  const { flags, notices } = parts;
  const flows = await watchFlows(parts);
  const removeLeftovers = leftoverRemoval({
    ...leftoverOptions(parts),
    onRemoval: () => flows?.read('change'),
  });
  const readNode = oneAtATime<void>(async () => {
    await readPodRoutes(parts);
    await readUplinks(parts);
  }, notices.log);
  watchOwnAddresses(parts, flows);
  return [
    readsFlows(flags, flows),
    ({ inSync }) => inSync && removeLeftovers(),
    changedOrDue(readNode),
    (round) => isChange(round) && collectGarbageSoon(),
  ];
}

function isChange({ syncs }: Round): boolean {
  return syncs.some(({ found }) => found !== undefined);
}

/** Does it after the first round, after each that has changed rules, and when it was not done for long; but not before the kernel is in sync. */
function changedOrDue(job: () => void): Beside {
  let isDue = true;
  let doneAt = performance.now();
  return (round) => {
    isDue ||= isChange(round) || performance.now() - doneAt >= READ_AGAIN_MS;
    if (!isDue || !round.inSync) return;
    [isDue, doneAt] = [false, performance.now()];
    job();
  };
}

/** Watches the agent's tables and chains, from when the dataplane is one of which events tell. */
export function kernelWatch({ flags, agent, reasons, netlink }: Parts): () => void {
  let isWatched = false;
  return () => {
    if (isWatched || !agent.state.dataplane?.hearsChanges) return;
    isWatched = true;
    void watchKernel(netlink, watchedTables(dataplaneOptions(flags)), reasons, stopSignal);
  };
}

function watchOwnAddresses({ agent, reasons, notices }: Parts, flows: FlowWatch | undefined): void {
  let known: string | undefined;
  const areCurrent = (): boolean => {
    try {
      const now = localKey();
      if (known !== undefined && known !== now) flows?.onChange();
      known = now;
      return areCompiledFor(usableSourceAddresses(), agent.state.policies);
    } catch (error) {
      // The round reads them again, and tells of a failure.
      if (!(error instanceof SystemError)) throw error;
      return false;
    }
  };
  void watchAddresses(areCurrent, reasons, notices, stopSignal);
}

/** Watches for flows against the policy, and for ports that run out; undefined if that is off. */
async function watchFlows({ flags, agent, notices }: Parts): Promise<FlowWatch | undefined> {
  const mode = flags['stale-flows'];
  if (mode === 'off') return undefined;
  const { FlowWatch } = await import('../../../lib/flows/watch.ts');
  const options = {
    mode,
    families: keptFamilies(flags),
    toPorts: flags['to-ports'],
    accepted: flags['accept-masqueraded'],
  };
  const flows = new FlowWatch(options, agent, notices);
  process.on('SIGHUP', () => flows.readAgain());
  return flows;
}

function readsFlows(flags: FlagValues, flows: FlowWatch | undefined): Beside {
  let isFirst = true;
  return (round) => {
    // What a run with --stale-flows=report has counted is deleted now, although nothing has changed.
    const isNew = isFirst && (isChange(round) || flags['stale-flows'] === 'delete-udp');
    if (isNew) flows?.read('change');
    else if (isFirst || isChange(round)) flows?.read(effectOf(round));
    isFirst = false;
  };
}

/** What a round has done to verdicts. */
function effectOf({ syncs }: Round): 'change' | 'repair' | 'nothing' {
  const isNew = syncs.some(({ verdicts }) => verdicts?.hadNoEffect || (verdicts?.lines.length ?? 0) > 0);
  if (!isNew) return 'nothing';
  return syncs.some(({ drifted }) => drifted) ? 'repair' : 'change';
}

/** Reads the routes to pods that the policies masquerade, and warns of them once for each range. */
async function readPodRoutes({ flags, agent, notices }: Parts): Promise<void> {
  const { log } = notices;
  const policies = appliedPolicies(agent.state);
  try {
    const found = await podFinder(flags)(policies, agent.state.inUse?.config.configFileNames ?? []);
    const count = (family: string) =>
      found.reduce((sum, one) => sum + (one.family === family ? one.routes : 0), 0);
    agent.set({ podRoutes: new Map(policies.map(({ family }) => [family, count(family)])) });
    const tell = found.map(({ family, range, message, evidence, remedy }) => {
      const warn = () => log.warn({ family, routes: evidence }, `${family}: ${message}; ${remedy}`);
      return [range.text, warn] as const;
    });
    notices.update('routes to pods', new Map(tell));
  } catch (error) {
    agent.set({ podRoutes: undefined });
    const text = `routes to pods not read: ${failureText(error)}`;
    notices.update('routes to pods', new Map([[text, () => log.info(text)]]));
  }
}

/** Warns of links by which masqueraded packets leave with an address that is not meant. */
async function readUplinks({ agent, notices, host }: Parts): Promise<void> {
  const { uplinkFindings } = await import('../../../lib/doctor/machine-findings.ts');
  const found = await uplinkFindings(host, appliedPolicies(agent.state));
  notices.warn(
    'links without an address',
    found.map(({ family, message, remedy }) => `${family}: ${message}; ${remedy}`),
  );
}

export function leftoverOptions({ flags, agent, notices, host }: Parts) {
  // In legacy mode netlink is for what is beside the agent's work alone.
  const others = agent.state.dataplane?.hearsChanges ? host : silentHost(flags);
  return { dataplane: dataplaneOptions(flags), host: others, agent, notices, signal: stopSignal };
}

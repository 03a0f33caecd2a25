import type { Dataplane, DifferenceKind } from '../dataplane/dataplane.ts';
import { describeKernelChange } from '../dataplane/kernel-verdicts.ts';
import { describePolicyChange, type VerdictChanges } from '../policy/changes.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { programs } from '../text/programs.ts';
import { missing, present } from './out-of-sync.ts';
import type { Trigger } from './reasons.ts';
import type { FamilyState, LastRound, State } from './state.ts';
import type { FamilyChange } from './sync.ts';

/** What a round has done in a family. */
export interface FamilySync {
  readonly family: Family;
  /** How the kernel differed; undefined if it did not. */
  readonly found: readonly DifferenceKind[] | undefined;
  /** What the change does to packets; undefined if nothing was written. */
  readonly verdicts: VerdictChanges | undefined;
  /** Whether another program has changed what the agent applied last. */
  readonly drifted: boolean;
}

/** What the agent knows of a family after a round. */
export function familyAfter(
  before: FamilyState | undefined,
  applied: Pick<FamilyState, 'policy' | 'dataplane' | 'generation'>,
  sync: FamilySync,
  inSync: boolean,
  trigger: Trigger,
): FamilyState {
  const known = { ...NEVER_SYNCED, ...before, ...applied };
  return inSync && isSync(sync, trigger) ? { ...known, ...timesAfter(known, sync) } : known;
}

/** Whether it counts as a sync. An event of the kernel after which nothing differs does not. */
export function isSync({ found }: FamilySync, { reason }: Trigger): boolean {
  return found !== undefined || reason !== 'kernel';
}

const NEVER_SYNCED = {
  syncedAt: undefined,
  lastSync: undefined,
  lastChange: undefined,
  lastFound: [],
};

/** What a sync that has ended in sync says of a family. */
function timesAfter(known: FamilyState, { found }: FamilySync): Partial<FamilyState> {
  const now = Date.now();
  return {
    syncedAt: performance.now(),
    lastSync: now,
    lastChange: found === undefined ? known.lastChange : now,
    lastFound: found ?? known.lastFound,
  };
}

export function outOfSyncAfter(
  { outOfSync }: State,
  { endedAt, inSync }: LastRound,
  syncs: readonly FamilySync[],
  { by }: Trigger,
): State['outOfSync'] {
  const why = `${programs(by)} changes the agent's rules again and again; find the program, or the second agent, that writes them`;
  if (!inSync) return missing(outOfSync, why, endedAt);
  return present(outOfSync, syncs.some(({ drifted }) => drifted) ? why : undefined, endedAt);
}

/** What a change does to packets. What this process applied is known, unless another program has changed it. */
export function verdictChanges(
  { drifted, observed }: FamilyChange,
  policy: Policy,
  dataplane: Dataplane,
  { families }: State,
): VerdictChanges {
  const last = drifted ? undefined : families.get(policy.family);
  // If the dataplane is another one, packets met the same rules in the old one until now.
  const isKnown = last !== undefined && (last.policy !== policy || last.dataplane !== dataplane);
  return isKnown
    ? describePolicyChange(last.policy, policy)
    : describeKernelChange(observed.verdicts(), policy);
}

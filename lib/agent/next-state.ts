import type { Dataplane, DifferenceKind } from '../dataplane/dataplane.ts';
import type { DataplaneError } from '../dataplane/error.ts';
import { describeKernelChange } from '../dataplane/kernel-verdicts.ts';
import { describePolicyChange, type VerdictChanges } from '../policy/changes.ts';
import type { Family } from '../policy/policy.ts';
import { programs } from '../text/programs.ts';
import { foundInSync, foundOutOfSync } from './out-of-sync.ts';
import type { Trigger } from './reasons.ts';
import type { State } from './state.ts';
import type { FamilyEnd } from './sync.ts';

/** What a round has done in a family. */
export interface FamilySync {
  readonly family: Family;
  /** How the kernel differed; undefined if nothing was written. */
  readonly found: readonly DifferenceKind[] | undefined;
  /** What the change does to packets; undefined if nothing was written. */
  readonly verdicts: VerdictChanges | undefined;
  /** Whether another program has changed what the agent applied last. */
  readonly drifted: boolean;
}

/** How a round has ended. */
export interface Outcome {
  /** What was done in each family; none if the round has compared none. */
  readonly syncs: readonly FamilySync[];
  /** Whether the kernel was found to hold all policies at the end; undefined if that was not compared, because no config is in use. */
  readonly inSync: boolean | undefined;
  /** Why the agent could not write: what another program has done. */
  readonly blocked?: DataplaneError;
}

/** What a round has done in a family, and how it has ended there. */
export type SyncedFamily = FamilySync & FamilyEnd;

export function syncedFamily(end: FamilyEnd, before: State['families']): SyncedFamily {
  const { policy, change } = end;
  const { family } = policy;
  if (change === undefined) return { ...end, family, found: undefined, verdicts: undefined, drifted: false };
  const { plan, observed, drifted } = change;
  // What packets met is what this process applied last, here or in another dataplane, unless another program has changed it.
  const last = drifted ? undefined : before.get(family)?.policy;
  const verdicts = last
    ? describePolicyChange(last, policy)
    : describeKernelChange(observed.verdicts(), policy);
  return { ...end, family, found: plan.found, verdicts, drifted };
}

/** What the agent knows of the families after a round: those whose policy it has written, or has found in the kernel, are new. */
export function familiesAfter(
  before: State['families'],
  syncs: readonly SyncedFamily[],
  dataplane: Dataplane,
): State['families'] {
  const now = Date.now();
  const after = new Map(before);
  for (const { family, policy, found, observed, holds } of syncs)
    if (found || holds)
      after.set(family, {
        ...NEVER_SYNCED,
        ...before.get(family),
        ...{ policy, dataplane, generation: holds ? observed?.generation : undefined },
        ...(holds && { syncedAt: performance.now(), lastSync: now }),
        ...(found && { lastChange: now, lastFound: found }),
      });
  return after;
}

const NEVER_SYNCED = { syncedAt: undefined, lastSync: undefined, lastChange: undefined, lastFound: [] };

export function outOfSyncAfter(
  { outOfSync }: State,
  { syncs, inSync, blocked }: Outcome,
  { by }: Trigger,
  endedAt: number,
): State['outOfSync'] {
  const again = `${programs(by)} changes the agent's rules again and again; find the program, or the second agent, that writes them`;
  if (inSync === false) return foundOutOfSync(outOfSync, blocked ? blockedText(blocked) : again, endedAt);
  return foundInSync(outOfSync, syncs.some(({ drifted }) => drifted) ? again : undefined, endedAt);
}

export function blockedText({ message, remedy }: DataplaneError): string {
  return `${message}; the rules stay as they are; ${remedy}`;
}

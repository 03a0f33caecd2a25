import type { Dataplane, Plan } from '../dataplane/dataplane.ts';
import type { VerdictChanges } from '../policy/changes.ts';
import type { Family, Policy } from '../policy/policy.ts';
import type { LoadObserver } from './load.ts';
import type { RetryableError } from './retry.ts';
import type { Trigger } from './triggers.ts';

/** Receives the events of a sync. It does not change the sync. */
export interface Observer extends LoadObserver {
  onDataplane(dataplane: Dataplane): void;
  /** An attempt failed, and a new one follows; `seconds` is the time of the attempt and of the pause after it. */
  onRetry(error: RetryableError, seconds: number): void;
  /** The kernel was found to hold the policy of a family. Not told after an event of the kernel that has changed nothing. */
  onSync(event: FamilySyncEvent): void;
  /** The kernel does not hold a policy, and the agent begins to write it. */
  onDifference(): void;
  onReconcile(event: ReconcileEvent): void;
  onFailure(families: readonly Family[]): void;
}

export interface ReconcileEvent {
  /** Whether no other program has changed the agent's rules since this process applied them; true at its first sync. */
  readonly wasUntouched: boolean;
  /** Whether the kernel holds the policies now. */
  readonly inSync: boolean;
  /** The programs that may have changed the agent's rules, as the kernel names them; undefined if it names none. */
  readonly by: readonly string[] | undefined;
}

/** The end of a sync of one family. */
export interface FamilySyncEvent {
  readonly policy: Policy;
  /** The plan that was applied; undefined if nothing differed. */
  readonly plan: Plan | undefined;
  /** What the plan does to packets. */
  readonly verdicts: VerdictChanges | undefined;
  /** Whether another program has changed what the agent applied last. */
  readonly drifted: boolean;
  readonly trigger: Trigger;
  /** Seconds since the trigger. */
  readonly duration: number;
}

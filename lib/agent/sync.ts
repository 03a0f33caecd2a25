import type { Dataplane } from '../dataplane/dataplane.ts';
import { describeKernelChange } from '../dataplane/kernel-verdicts.ts';
import type { Logger } from '../log/log.ts';
import type { VerdictChanges } from '../policy/changes.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { type ChangesByFamily, logChange } from './log-changes.ts';
import type { Observer } from './observer.ts';
import { type FamilyChange, reconcile } from './reconcile.ts';
import type { RetryOptions } from './retry.ts';
import type { Trigger } from './triggers.ts';

export interface SyncOptions {
  /** The policies that this process has applied last in this dataplane; undefined at its first sync there. */
  readonly applied: readonly Policy[] | undefined;
  /** As in `Compiled`; undefined also if the policies are not new with this sync. */
  readonly policyChanges: ChangesByFamily | undefined;
  readonly retry: RetryOptions;
  readonly observer: Observer;
  readonly log: Logger;
}

/** What a sync of all families has written and found. */
export interface Written {
  /** Whether anything was written. */
  readonly changed: boolean;
  /** Whether the kernel gives some packets another verdict than before. */
  readonly newVerdicts: boolean;
  /** The programs that may have made the drift that was found; undefined if there was none. */
  readonly driftBy: readonly string[] | undefined;
  /** Whether the kernel was found to hold the policies at the end. */
  readonly inSync: boolean;
  /** The generation of nf_tables in which it held the policy of each family; absent if it did not, or netlink does not tell it. */
  readonly generations: ReadonlyMap<Family, number>;
}

/** Brings the policies into the kernel, and tells the observer and the log. */
export async function syncAll(
  policies: readonly Policy[],
  dataplane: Dataplane,
  trigger: Trigger,
  { applied, policyChanges, retry, observer, log }: SyncOptions,
): Promise<Written> {
  const { changes, inSync, generations, undeletable } = await reconcile(dataplane, policies, {
    ...retry,
    applied,
    onApply({ family, script }) {
      observer.onDifference();
      log.trace({ family, transaction: script.split('\n') }, 'applying');
    },
  }).catch((error: unknown) => {
    observer.onFailure(policies.map(({ family }) => family));
    throw error;
  });
  const took = performance.now() - trigger.since;
  const isDrift = [...changes.values()].some(({ drifted }) => drifted);
  observer.onReconcile({ wasUntouched: !isDrift, inSync, by: trigger.by });
  let newVerdicts = false;
  for (const policy of policies) {
    const { family } = policy;
    const change = changes.get(family);
    const verdicts = change && changesOf(change, policy, policyChanges);
    newVerdicts ||= verdicts !== undefined && (verdicts.lines.length > 0 || verdicts.hadNoEffect === true);
    const { plan, drifted = false } = change ?? {};
    // An event of the kernel after which nothing differs is not reported as a sync.
    if (inSync && (plan !== undefined || trigger.reason !== 'kernel'))
      observer.onSync({ policy, plan, verdicts, drifted, trigger, duration: took / 1000 });
    if (plan === undefined || verdicts === undefined)
      log.debug({ family, reason: trigger.reason }, 'nothing to change');
    else logChange(log, { plan, verdicts, drifted, inSync, trigger, took });
    // Each new process warns of a chain that it cannot delete, and then whenever the rules change.
    if (change !== undefined || trigger.reason === 'start')
      for (const text of undeletable.get(family) ?? []) log.warn({ family }, text);
  }
  return {
    changed: changes.size > 0,
    newVerdicts,
    driftBy: isDrift ? (trigger.by ?? []) : undefined,
    inSync,
    generations,
  };
}

/** What a change does to packets. What this process applied is known, unless another program has changed it. */
function changesOf(
  { drifted, observed }: FamilyChange,
  policy: Policy,
  policyChanges: ChangesByFamily | undefined,
): VerdictChanges {
  const known = drifted ? undefined : policyChanges?.get(policy.family);
  return known ?? describeKernelChange(observed.verdicts(), policy);
}

export function announceDataplane(dataplane: Dataplane, observer: Observer, log: Logger): void {
  const { name, reason, warning } = dataplane;
  observer.onDataplane(dataplane);
  log.info(`using ${name}: ${reason}`);
  if (warning !== undefined) log.warn(warning);
}

import type { Wake } from '../agent/trigger.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { SourceCount } from '../dataplane/counts.ts';
import { type Dataplane, DIFFERENCES, type Plan } from '../dataplane/dataplane.ts';
import type { DataplaneError } from '../dataplane/error.ts';
import type { ForeignFinding } from '../neighbours/group.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { configHash } from './config-hash.ts';
import type { Metrics } from './metrics.ts';
import type { Recorder } from './recorder.ts';

/** How one family stands. Times are those of Date.now(), but for `syncedAt`. */
export interface FamilyStatus {
  readonly policy: Policy;
  /** The same as `lastSuccess`, but of performance.now(), which nobody can set. */
  readonly syncedAt: number;
  readonly lastSuccess: number;
  readonly lastChange: number | undefined;
  /** How the kernel differed at the last change. */
  readonly lastFound: readonly string[];
}

/** A sync that has ended well. */
export interface SyncEvent {
  readonly policy: Policy;
  /** Undefined where nothing differed. */
  readonly plan: Plan | undefined;
  /** Whether somebody else had changed the rules. */
  readonly drifted: boolean;
  readonly wake: Wake;
  /** Seconds. */
  readonly duration: number;
}

/** What the agent knows of itself, for those who ask: endpoints and metrics. */
export class Status {
  readonly #recorder: Recorder;
  readonly #families = new Map<Family, FamilyStatus>();
  #loaded: LoadedConfig | undefined;
  #dataplane: Dataplane | undefined;
  #foreign: readonly ForeignFinding[] = [];

  constructor(recorder: Recorder) {
    this.#recorder = recorder;
  }

  /** Of each family that has been synced. */
  get families(): ReadonlyMap<Family, FamilyStatus> {
    return this.#families;
  }

  /** The last reading of the sources. */
  get loaded(): LoadedConfig | undefined {
    return this.#loaded;
  }

  /** The one in use, once there is one. */
  get dataplane(): Dataplane | undefined {
    return this.#dataplane;
  }

  /** What the last look has found of others. */
  get foreign(): readonly ForeignFinding[] {
    return this.#foreign;
  }

  /** The dataplane to use has been found. */
  onDataplane(dataplane: Dataplane): void {
    this.#dataplane = dataplane;
  }

  /** The sources were read, whatever has come of it. */
  onLoad(loaded: LoadedConfig): void {
    const { config } = loaded;
    const isNew = loaded !== this.#loaded;
    this.#loaded = loaded;
    this.#recorder.record((metrics) => {
      metrics.add('config_loads_total', { result: config === undefined ? 'invalid' : 'valid' });
      if (config === undefined || !isNew) return;
      metrics.set('config_sources', {}, config.sources.length);
      metrics.replace('config_info', [{ labels: { hash: configHash(config) }, value: 1 }]);
      const conflicts = Map.groupBy(config.conflicts, ({ severity, kind }) => `${severity} ${kind}`);
      metrics.replace(
        'config_conflicts',
        [...conflicts.values()].flatMap((group) =>
          group
            .slice(0, 1)
            .map(({ severity, kind }) => ({ labels: { severity, kind }, value: group.length })),
        ),
      );
    });
  }

  /** A family was synced. */
  onSync({ policy, plan, drifted, wake, duration }: SyncEvent): void {
    const { family } = policy;
    const now = Date.now();
    const before = this.#families.get(family);
    const isNew = policy !== before?.policy;
    this.#families.set(family, {
      policy,
      syncedAt: performance.now(),
      lastSuccess: now,
      lastChange: plan === undefined ? before?.lastChange : now,
      lastFound: plan?.found ?? before?.lastFound ?? [],
    });
    this.#recorder.record((metrics) => {
      if (before === undefined) beginAtZero(metrics, family);
      metrics.add('syncs_total', { family, result: plan === undefined ? 'unchanged' : 'changed' });
      metrics.observe('sync_duration_seconds', { family }, duration);
      metrics.set('last_sync_success_timestamp_seconds', { family }, now / 1000);
      if (isNew) this.#recordPolicy(metrics, policy);
      if (plan === undefined) return;
      metrics.set('last_change_timestamp_seconds', { family }, now / 1000);
      if (wake.reason === 'change') metrics.observe('reaction_duration_seconds', {}, duration);
      for (const found of drifted ? plan.found : []) metrics.add('drift_repairs_total', { family, found });
    });
  }

  #recordPolicy(metrics: Metrics, policy: Policy): void {
    const { family, entries } = policy;
    metrics.set('rules', { family }, this.#dataplane?.size(policy) ?? 0);
    for (const verdict of ['return', 'masquerade'] as const) {
      const count = entries.filter((entry) => entry.verdict === verdict).length;
      metrics.set('config_entries', { family, verdict }, count);
    }
  }

  /** A sync of these families has failed. */
  onFailure(families: readonly Family[]): void {
    this.#recorder.record((metrics) => {
      for (const family of families) metrics.add('syncs_total', { family, result: 'failed' });
    });
  }

  /** @param seconds that the failed attempt and the pause after it have taken */
  onRetry({ failure }: DataplaneError, seconds: number): void {
    this.#recorder.record((metrics) => {
      metrics.add('sync_retries_total', { reason: failure });
      if (failure === 'busy') metrics.add('lock_wait_seconds_total', {}, seconds);
    });
  }

  /** These families were looked at for rules of others. */
  onSurvey(families: readonly Family[], findings: readonly ForeignFinding[]): void {
    this.#foreign = findings;
    this.#recorder.record((metrics) => {
      for (const family of families) {
        const rules = findings
          .filter((finding) => finding.family === family)
          .flatMap((finding) => finding.rules);
        metrics.set('foreign_masquerade_rules', { family }, rules.length);
      }
    });
  }

  /** @param counts since the last call */
  onCounts(family: Family, counts: readonly SourceCount[]): void {
    this.#recorder.record((metrics) => {
      for (const { source = 'none', verdict, packets, bytes } of counts) {
        const [p, b] = [Number(packets), Number(bytes)];
        if (verdict === 'masquerade') {
          metrics.add('masqueraded_packets_total', { family }, p);
          metrics.add('masqueraded_bytes_total', { family }, b);
        } else {
          metrics.add('not_masqueraded_packets_total', { family, source }, p);
          metrics.add('not_masqueraded_bytes_total', { family, source }, b);
        }
      }
    });
  }
}

/** A series that is not there before its first event hides that event from rate() and increase() of Prometheus. */
function beginAtZero(metrics: Metrics, family: Family): void {
  for (const result of ['changed', 'unchanged', 'failed']) metrics.add('syncs_total', { family, result }, 0);
  for (const found of DIFFERENCES) metrics.add('drift_repairs_total', { family, found }, 0);
  for (const result of ['valid', 'invalid']) metrics.add('config_loads_total', { result }, 0);
  for (const reason of ['busy', 'raced']) metrics.add('sync_retries_total', { reason }, 0);
}

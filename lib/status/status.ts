import type { Observer, SyncEvent } from '../agent/loop.ts';
import type { LoadedConfig } from '../config/load.ts';
import { type Dataplane, DIFFERENCES } from '../dataplane/dataplane.ts';
import type { DataplaneError } from '../dataplane/error.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { configHash } from './config-hash.ts';
import type { Metrics } from './metrics.ts';
import type { SourceCount } from './packet-counts.ts';

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

/** What a look at the neighbours has found: foreign rules that may masquerade what the policy leaves alone. */
export interface ForeignFinding {
  readonly family: Family;
  /** How many rules. */
  readonly rules: number;
  /** One sentence. */
  readonly message: string;
  /** The rules, and what they ask for. */
  readonly evidence: readonly string[];
  readonly remedy: string;
}

/** What happened, as a change of metrics. */
type Change = (metrics: Metrics) => void;

/** Keeps what happens until there are metrics to record it in: these are loaded only after the first sync. */
export class Recorder {
  #metrics: Metrics | undefined;
  #waiting: Change[] | undefined = [];

  /** Records it now, or once there are metrics. */
  record(event: Change): void {
    if (this.#metrics === undefined) this.#waiting?.push(event);
    else event(this.#metrics);
  }

  /** From now on everything goes to these metrics, what has happened so far first. */
  attach(metrics: Metrics): void {
    for (const event of this.#waiting ?? []) event(metrics);
    this.#waiting = undefined;
    this.#metrics = metrics;
  }

  /** Nobody will ask. */
  discard(): void {
    this.#waiting = undefined;
  }
}

/** What the agent knows of itself, for those who ask: endpoints and metrics. */
export class Status implements Observer {
  readonly #recorder: Recorder;
  readonly #ruleCount: (policy: Policy) => number;
  readonly #families = new Map<Family, FamilyStatus>();
  #loaded: LoadedConfig | undefined;
  #dataplane: Dataplane | undefined;
  #foreign: readonly ForeignFinding[] = [];

  /** @param ruleCount tells how many rules hold a policy in the kernel */
  constructor(recorder: Recorder, ruleCount: (policy: Policy) => number) {
    this.#recorder = recorder;
    this.#ruleCount = ruleCount;
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

  /** What the last look at the neighbours has found. */
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
    metrics.set('rules', { family }, this.#ruleCount(policy));
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

  /** These families were looked at for foreign rules. */
  onNeighbours(families: readonly Family[], findings: readonly ForeignFinding[]): void {
    this.#foreign = findings;
    this.#recorder.record((metrics) => {
      for (const family of families) {
        const rules = findings
          .filter((finding) => finding.family === family)
          .reduce((sum, finding) => sum + finding.rules, 0);
        metrics.set('foreign_masquerade_rules', { family }, rules);
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

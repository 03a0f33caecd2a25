import { isDeepStrictEqual } from 'node:util';
import type { ValidConfig } from '../agent/load.ts';
import type { FamilySyncEvent, Observer, ReconcileEvent } from '../agent/observer.ts';
import type { RetryableError } from '../agent/retry.ts';
import { configHash } from '../config/config-hash.ts';
import type { InvalidConfigError } from '../config/invalid-config.ts';
import type { Dataplane, EntryCount } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { FlowsAgainst } from '../flows/against.ts';
import type { PortCounter } from '../flows/ports-in-use.ts';
import type { Suspects } from '../foreign/suspects.ts';
import type { ConntrackTable } from '../node/conntrack-table.ts';
import type { MasqueradedPodRoutes } from '../policy/masqueraded-pod-routes.ts';
import type { Family } from '../policy/policy.ts';
import { programs } from '../text/programs.ts';
import * as events from './event-metrics.ts';
import { OutOfSync } from './out-of-sync.ts';
import type { Recorder } from './recorder.ts';
import type { Build, FamilyStatus, FlowsStatus, InvalidConfig, Status } from './status.ts';

const REPAIR_GOES_ON =
  "the kernel does not hold the agent's rules yet: the repair has not ended; find out what iptables-restore, or the kernel, waits for";

/** Keeps what the loop and the watchers tell as the status, and has the metrics recorded. */
export class StatusObserver implements Observer, Status {
  readonly build: Build;
  readonly families = new Map<Family, FamilyStatus>();
  readonly outOfSync = new OutOfSync();
  loaded: ValidConfig | undefined;
  invalid: InvalidConfig | undefined;
  vanished: ReadonlyMap<string, number> = new Map();
  dataplane: Dataplane | undefined;
  suspects: Suspects | undefined;
  flows: FlowsStatus | undefined;
  #hash: string | undefined;
  readonly #recorder: Recorder;
  /** What connection tracking had dropped at the last reading. */
  #dropped: number | undefined;

  constructor(recorder: Recorder, build: Build) {
    this.#recorder = recorder;
    this.build = build;
    this.#recordBuild('');
  }

  // Made once: with many entries it takes long.
  get hash(): string | undefined {
    this.#hash ??= this.loaded && configHash(this.loaded.config);
    return this.#hash;
  }

  onDataplane(dataplane: Dataplane): void {
    this.dataplane = dataplane;
    this.#recordBuild(dataplane.name);
    // In the search for the mode, netlink may have been asked.
    if (dataplane.iptables?.mode === 'legacy')
      this.#recorder.record((metrics) => metrics.replace('netlink_active', []));
  }

  onInvalidConfig(error: InvalidConfigError): void {
    this.invalid = { error, since: this.invalid?.since ?? Date.now() };
    this.#recorder.record((metrics) => events.recordInvalidConfig(metrics, error));
  }

  onLoad(loaded: ValidConfig, vanished: ReadonlyMap<string, number> = new Map()): void {
    const now = Date.now();
    // A config of an earlier run is in use because the config files have errors.
    if (loaded.earlier === undefined) this.#recorder.record((metrics) => events.recordLoad(metrics, now));
    this.invalid = undefined;
    if (loaded === this.loaded && isDeepStrictEqual(vanished, this.vanished)) return;
    this.vanished = vanished;
    this.#recorder.record((metrics) => events.recordConfigFiles(metrics, loaded, vanished));
    if (loaded === this.loaded) return;
    this.loaded = loaded;
    this.#hash = undefined;
    this.#recorder.record((metrics) => events.recordConfig(metrics, loaded));
  }

  onSync(event: FamilySyncEvent): void {
    const { policy, plan, verdicts } = event;
    const { family } = policy;
    const now = Date.now();
    const before = this.families.get(family);
    this.families.set(family, {
      policy,
      syncedAt: performance.now(),
      lastSuccess: now,
      lastChange: plan === undefined ? before?.lastChange : now,
      lastFound: plan?.found ?? before?.lastFound ?? [],
      lastVerdicts: verdicts?.lines.length ? { ...verdicts, at: now } : before?.lastVerdicts,
    });
    const policies = Array.from(this.families.values(), (one) => one.policy);
    this.#recorder.record((metrics) => {
      if (before === undefined) events.beginAtZero(metrics, family, this.dataplane);
      events.recordSync(metrics, event, now);
      if (policy === before?.policy) return;
      events.recordPolicy(metrics, policy, policies);
      if (this.dataplane) metrics.set('rules', { family }, this.dataplane.ruleCount(policy));
    });
  }

  onDifference(): void {
    this.outOfSync.begin(REPAIR_GOES_ON, performance.now());
  }

  onReconcile({ wasUntouched, inSync, by }: ReconcileEvent): void {
    const why = `${programs(by)} changes the agent's rules again and again; find the program, or the second agent, that writes them`;
    if (inSync) this.outOfSync.end(wasUntouched ? undefined : why, performance.now());
    else this.outOfSync.begin(why, performance.now());
  }

  /** Sets what changes with time alone. */
  refresh(): void {
    const isOn = this.outOfSync.reason(performance.now()) !== undefined;
    this.#recorder.record((metrics) => metrics.set('rules_out_of_sync', {}, isOn ? 1 : 0));
  }

  onFailure(families: readonly Family[]): void {
    this.#recorder.record((metrics) => {
      for (const family of families) metrics.add('syncs_total', { family, result: 'failed' });
    });
  }

  /** @param seconds the time of the failed attempt and of the pause after it */
  onRetry(error: RetryableError, seconds: number): void {
    const { failure, message } = error;
    // The other one is of the config files, or of the node's addresses.
    if (error instanceof DataplaneError)
      this.outOfSync.begin(
        `the agent cannot read or write its rules: ${message}`,
        performance.now() - seconds * 1000,
      );
    this.#recorder.record((metrics) => {
      metrics.add('sync_retries_total', { reason: failure });
      if (failure === 'busy') metrics.add('lock_wait_seconds_total', {}, seconds);
    });
  }

  /** The agent has read what else does NAT on the node. */
  onSuspects(suspects: Suspects): void {
    this.suspects = suspects;
  }

  /** What the last reading of connection tracking said is not about the rules that are there now. */
  forgetFlows(): void {
    this.flows = undefined;
  }

  /**
   * The agent has read connection tracking; undefined if it could not.
   *
   * @param read `ports` is undefined if they were not counted
   */
  onFlows(
    read: { readonly against: FlowsAgainst; readonly ports: PortCounter | undefined } | undefined,
  ): void {
    const { against } = read ?? {};
    this.flows = against && { at: Date.now(), counts: against.counts(), examples: against.examples() };
    const families = [...this.families.keys()];
    this.#recorder.record((metrics) => events.recordFlows(metrics, families, read));
  }

  /** The agent has read how full connection tracking is; undefined if it is not loaded. */
  onConntrack(table: ConntrackTable | undefined): void {
    const dropped = table === undefined ? 0 : Math.max(0, table.dropped - (this.#dropped ?? table.dropped));
    this.#dropped = table?.dropped;
    this.#recorder.record((metrics) => {
      const used = table === undefined ? [] : [{ labels: {}, value: table.entries / table.most }];
      metrics.replace('conntrack_usage_ratio', used);
      metrics.add('conntrack_drops_total', {}, dropped);
    });
  }

  /** The agent has read the routes to pods; undefined if it could not. */
  onMasqueradedPodRoutes(found: readonly MasqueradedPodRoutes[] | undefined): void {
    const families = found === undefined ? [] : [...this.families.keys()];
    const values = families.map((family) => {
      const own = found?.filter((one) => one.family === family) ?? [];
      return { labels: { family }, value: own.reduce((sum, { routes }) => sum + routes, 0) };
    });
    this.#recorder.record((metrics) => metrics.replace('masqueraded_pod_routes', values));
  }

  onCounts(counts: ReadonlyMap<Family, readonly EntryCount[]>): void {
    this.#recorder.record((metrics) => events.recordCounts(metrics, counts));
  }

  #recordBuild(dataplane: string): void {
    const { version, commit, nodejs } = this.build;
    const labels = { version, commit, nodejs, dataplane };
    this.#recorder.record((metrics) => metrics.replace('build_info', [{ labels, value: 1 }]));
  }
}

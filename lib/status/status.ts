import type { ValidConfig } from '../agent/load.ts';
import type { FamilySyncEvent, Observer, ReconcileEvent } from '../agent/loop.ts';
import { configHash, refusedHash } from '../config/config-hash.ts';
import type { InvalidConfigError } from '../config/invalid-config.ts';
import { KINDS_OF_VALID_CONFIG, type Problem } from '../config/problem.ts';
import { type Dataplane, DIFFERENCES } from '../dataplane/dataplane.ts';
import type { DataplaneError } from '../dataplane/error.ts';
import type { ForeignFinding } from '../foreign/find.ts';
import type { VerdictChanges } from '../policy/changes.ts';
import type { MasqueradedPodRoutes } from '../policy/masqueraded-pod-routes.ts';
import { addressRequests, bestAddresses, type Family, type Policy } from '../policy/policy.ts';
import { Contest } from './contest.ts';
import type { Metrics } from './metrics.ts';
import { type ConfigFileCount, originName } from './packet-counts.ts';

/** The status of one family. Times are from Date.now(), except `syncedAt`. */
export interface FamilyStatus {
  readonly policy: Policy;
  /** The time of `lastSuccess` by performance.now(), which does not change if the clock is set. */
  readonly syncedAt: number;
  readonly lastSuccess: number;
  readonly lastChange: number | undefined;
  /** How the kernel differed at the last change. */
  readonly lastFound: readonly string[];
  /** The last change after which packets get another verdict. */
  readonly lastVerdicts: (VerdictChanges & { readonly at: number }) | undefined;
}

/** A reading of the config files with errors. */
export interface InvalidConfig {
  readonly error: InvalidConfigError;
  /** The time of the first such reading after a valid one. */
  readonly since: number;
}

type Update = (metrics: Metrics) => void;

/** Records changes of metrics. It keeps them until metrics are attached, which are loaded only after the first sync. */
export class Recorder {
  #metrics: Metrics | undefined;
  #waiting: Update[] | undefined = [];

  record(update: Update): void {
    if (this.#metrics === undefined) this.#waiting?.push(update);
    else update(this.#metrics);
  }

  attach(metrics: Metrics): void {
    for (const update of this.#waiting ?? []) update(metrics);
    this.#waiting = undefined;
    this.#metrics = metrics;
  }

  /** Drops all kept changes, because there is no server for metrics. */
  discard(): void {
    this.#waiting = undefined;
  }
}

/** How many addresses are found, in words; the last is for any more. */
const FOUND = ['none', 'one', 'several'] as const;

export interface Build {
  readonly version: string;
  readonly commit: string;
  readonly nodejs: string;
}

export class Status implements Observer {
  readonly #recorder: Recorder;
  readonly #families = new Map<Family, FamilyStatus>();
  #loaded: ValidConfig | undefined;
  #hash: string | undefined;
  #dataplane: Dataplane | undefined;
  /** Config files with counters of their own. */
  readonly #counted: Readonly<Record<Family, Set<string>>> = { IPv4: new Set(), IPv6: new Set() };
  #foreign: readonly ForeignFinding[] = [];
  #invalid: InvalidConfig | undefined;
  readonly contest = new Contest();

  readonly build: Build;

  constructor(recorder: Recorder, build: Build) {
    this.#recorder = recorder;
    this.build = build;
    this.#recordBuild('', '');
  }

  /** The status of each family that has been synced. */
  get families(): ReadonlyMap<Family, FamilyStatus> {
    return this.#families;
  }

  /** The last reading of the config files that had no error. */
  get loaded(): ValidConfig | undefined {
    return this.#loaded;
  }

  /** The hash of its config; undefined before there is one. It is made once: with many entries it takes long. */
  get hash(): string | undefined {
    this.#hash ??= this.#loaded && configHash(this.#loaded.config);
    return this.#hash;
  }

  /** The dataplane in use; undefined before it is found. */
  get dataplane(): Dataplane | undefined {
    return this.#dataplane;
  }

  /** The findings of the last reading of foreign rules. */
  get foreign(): readonly ForeignFinding[] {
    return this.#foreign;
  }

  onDataplane(dataplane: Dataplane): void {
    this.#dataplane = dataplane;
    this.#recordBuild(dataplane.name, dataplane.chosenBy);
    // In the search for the mode, netlink may have been asked.
    if (dataplane.iptables?.mode === 'legacy')
      this.#recorder.record((metrics) => metrics.replace('netlink_active', []));
  }

  /** The errors of the last reading of the config files; undefined if it was valid. */
  get invalid(): InvalidConfig | undefined {
    return this.#invalid;
  }

  onInvalidConfig(error: InvalidConfigError): void {
    this.#invalid = { error, since: this.#invalid?.since ?? Date.now() };
    this.#recorder.record((metrics) => {
      metrics.set('config_valid', {}, 0);
      metrics.replace('config_refused_info', [{ labels: { hash: refusedHash(error) }, value: 1 }]);
      const kinds = Map.groupBy(error.problems, ({ kind }) => kind);
      metrics.replace(
        'config_errors',
        [...kinds].map(([kind, problems]) => ({ labels: { kind }, value: problems.length })),
      );
      metrics.add('config_loads_total', { result: 'invalid' });
    });
  }

  onLoad(loaded: ValidConfig): void {
    const { config } = loaded;
    const isNew = loaded !== this.#loaded;
    const now = Date.now();
    this.#loaded = loaded;
    if (isNew) this.#hash = undefined;
    this.#invalid = undefined;
    this.#recorder.record((metrics) => {
      metrics.set('config_valid', {}, 1);
      metrics.set('config_last_valid_timestamp_seconds', {}, now / 1000);
      metrics.replace('config_refused_info', []);
      metrics.replace('config_errors', []);
      metrics.add('config_loads_total', { result: 'valid' });
      if (!isNew) return;
      metrics.set('config_files', {}, config.configFileNames.length);
      metrics.replace(
        'config_file_info',
        config.configFileNames.map((file) => ({ labels: { file }, value: 1 })),
      );
      metrics.replace('config_info', [{ labels: { hash: configHash(config) }, value: 1 }]);
      const conflicts = Map.groupBy<string, Problem>(config.problems, ({ kind }) => kind);
      for (const [kind, { severity }] of KINDS_OF_VALID_CONFIG)
        metrics.set('config_problems', { severity, kind }, conflicts.get(kind)?.length ?? 0);
    });
  }

  onSync({ policy, plan, verdicts, drifted, trigger, duration }: FamilySyncEvent): void {
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
      lastVerdicts: verdicts?.lines.length ? { ...verdicts, at: now } : before?.lastVerdicts,
    });
    this.#recorder.record((metrics) => {
      if (before === undefined) beginAtZero(metrics, family, this.#dataplane);
      metrics.add('syncs_total', { family, result: plan === undefined ? 'unchanged' : 'changed' });
      metrics.observe('sync_duration_seconds', { family }, duration);
      metrics.set('last_sync_success_timestamp_seconds', { family }, now / 1000);
      if (isNew) this.#recordPolicy(metrics, policy);
      if (plan === undefined) return;
      metrics.set('last_change_timestamp_seconds', { family }, now / 1000);
      if (trigger.reason === 'change') metrics.observe('reaction_duration_seconds', {}, duration);
      if (!drifted) return;
      metrics.add('drift_repairs_total', { family, program: programLabel(trigger.by) });
      for (const found of plan.found) metrics.add('drift_differences_total', { family, found });
    });
  }

  onReconcile(event: ReconcileEvent): void {
    this.contest.onReconcile(event, performance.now());
  }

  /** Sets what changes with time alone. */
  refresh(): void {
    const isOn = this.contest.isContested(performance.now());
    this.#recorder.record((metrics) => metrics.set('rules_contested', {}, isOn ? 1 : 0));
  }

  #recordBuild(dataplane: string, chosen_by: string): void {
    const { version, commit, nodejs } = this.build;
    const labels = { version, commit, nodejs, dataplane, chosen_by };
    this.#recorder.record((metrics) => metrics.replace('build_info', [{ labels, value: 1 }]));
  }

  #recordPolicy(metrics: Metrics, policy: Policy): void {
    const { family, from, entries } = policy;
    if (from.length > 0) metrics.add('connections_from_elsewhere_total', { family }, 0);
    else metrics.remove('connections_from_elsewhere_total', { family });
    if (this.#dataplane !== undefined) metrics.set('rules', { family }, this.#dataplane.ruleCount(policy));
    const ranges = [...this.#families.values()].flatMap((one) => addressRanges(one.policy));
    metrics.replace('masquerade_address_ranges', ranges);
    for (const verdict of ['not_masqueraded', 'masqueraded'] as const) {
      const count = entries.filter((entry) => entry.verdict === verdict).length;
      metrics.set('config_entries', { family, verdict }, count);
    }
    const files = new Set(entries.map(({ origin }) => originName(origin)));
    for (const file of this.#counted[family]) {
      if (files.has(file)) continue;
      metrics.remove('not_masqueraded_connections_total', { family, file });
      this.#counted[family].delete(file);
    }
  }

  onFailure(families: readonly Family[]): void {
    this.#recorder.record((metrics) => {
      for (const family of families) metrics.add('syncs_total', { family, result: 'failed' });
    });
  }

  /** @param seconds the time of the failed attempt and of the pause after it */
  onRetry({ failure }: DataplaneError, seconds: number): void {
    this.#recorder.record((metrics) => {
      metrics.add('sync_retries_total', { reason: failure });
      if (failure === 'busy') metrics.add('lock_wait_seconds_total', {}, seconds);
    });
  }

  /** The agent has read the foreign rules. */
  onForeignRules(findings: readonly ForeignFinding[]): void {
    this.#foreign = findings;
    const rules = (areAccepted: boolean) =>
      ruleCounts(findings.filter((one) => one.isAccepted === areAccepted));
    this.#recorder.record((metrics) => {
      metrics.replace('foreign_masquerade_rules', rules(false));
      metrics.replace('accepted_foreign_rules', rules(true));
    });
  }

  /** The agent has read the routes to pods; undefined if it could not. */
  onMasqueradedPodRoutes(found: readonly MasqueradedPodRoutes[] | undefined): void {
    const families = found === undefined ? [] : [...this.#families.keys()];
    const values = families.map((family) => {
      const own = found?.filter((one) => one.family === family) ?? [];
      return { labels: { family }, value: own.reduce((sum, { routes }) => sum + routes, 0) };
    });
    this.#recorder.record((metrics) => metrics.replace('masqueraded_pod_routes', values));
  }

  /** @param counts since the last call */
  onCounts(family: Family, counts: readonly ConfigFileCount[]): void {
    this.#recorder.record((metrics) => {
      for (const { file, countedAs, packets } of counts) {
        const count = Number(packets);
        if (countedAs === 'masqueraded') metrics.add('masqueraded_connections_total', { family }, count);
        else if (countedAs === 'invalid') metrics.add('invalid_packets_total', { family }, count);
        else if (file === undefined) metrics.add('connections_from_elsewhere_total', { family }, count);
        else {
          this.#counted[family].add(file);
          metrics.add('not_masqueraded_connections_total', { family, file }, count);
        }
      }
    });
  }
}

function ruleCounts(findings: readonly ForeignFinding[]) {
  const groups = Map.groupBy(
    findings,
    ({ family, author, limitsSources }) => `${family} ${author} ${limitsSources}`,
  );
  return [...groups.values()].flatMap((group) =>
    group.slice(0, 1).map(({ family, author, limitsSources }) => ({
      labels: { family, author, sources: limitsSources ? 'some' : 'any' },
      value: group.reduce((sum, { rules }) => sum + rules, 0),
    })),
  );
}

/** How many ranges of masqueradeAddresses hold so many addresses of the node; empty if the policy asks for none. */
function addressRanges(policy: Policy) {
  const counts = addressRequests(policy).map((one) => Math.min(bestAddresses(one).length, FOUND.length - 1));
  if (counts.length === 0) return [];
  return FOUND.map((found, index) => ({
    labels: { family: policy.family, found },
    value: counts.filter((count) => count === index).length,
  }));
}

const PROGRAMS = ['iptables', 'iptables-restore', 'nft', 'other', 'several', 'unknown'] as const;

/** The label for programs, of which the kernel tells the first 15 characters of the name. */
function programLabel([first, ...more]: readonly string[] = []): (typeof PROGRAMS)[number] {
  if (first === undefined) return 'unknown';
  if (more.length > 0) return 'several';
  const name = first.replace(/^ip6?tables(?:-nft)?(?:-(r).*)?$/, (_, restore) =>
    restore === undefined ? 'iptables' : 'iptables-restore',
  );
  return PROGRAMS.slice(0, 3).find((one) => one === name) ?? 'other';
}

/** Adds all series with zero. Otherwise rate() and increase() of Prometheus miss the first event of each. */
function beginAtZero(metrics: Metrics, family: Family, dataplane: Dataplane | undefined): void {
  for (const result of ['changed', 'unchanged', 'failed']) metrics.add('syncs_total', { family, result }, 0);
  for (const program of PROGRAMS) metrics.add('drift_repairs_total', { family, program }, 0);
  const differences = DIFFERENCES[dataplane?.iptables === undefined ? 'nftables' : 'iptables'];
  for (const found of differences) metrics.add('drift_differences_total', { family, found }, 0);
  for (const result of ['valid', 'invalid']) metrics.add('config_loads_total', { result }, 0);
  for (const reason of ['busy', 'raced']) metrics.add('sync_retries_total', { reason }, 0);
}

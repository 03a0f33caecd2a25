import type { ValidConfig } from '../agent/load.ts';
import type { FamilySyncEvent } from '../agent/observer.ts';
import { configHash, refusedHash } from '../config/config-hash.ts';
import type { InvalidConfigError } from '../config/invalid-config.ts';
import { emptyFilesOf } from '../config/load.ts';
import { KINDS_OF_VALID_CONFIG, type Problem } from '../config/problem.ts';
import { type Dataplane, DIFFERENCES, type EntryCount } from '../dataplane/dataplane.ts';
import { BEGINNINGS, type FlowsAgainst, TREATMENTS } from '../flows/against.ts';
import type { PortCounter } from '../flows/ports-in-use.ts';
import { addressRequests, bestAddresses, type Family, type Policy } from '../policy/policy.ts';
import type { Origin } from '../text/origin.ts';
import type { Metrics } from './metrics.ts';

/** How many addresses are found, in words; the last is for any more. */
const FOUND = ['none', 'one', 'several'] as const;

export function recordInvalidConfig(metrics: Metrics, error: InvalidConfigError): void {
  metrics.set('config_valid', {}, 0);
  metrics.replace('config_refused_info', [{ labels: { hash: refusedHash(error) }, value: 1 }]);
  const kinds = Map.groupBy(error.problems, ({ kind }) => kind);
  metrics.replace(
    'config_errors',
    [...kinds].map(([kind, problems]) => ({ labels: { kind }, value: problems.length })),
  );
  metrics.add('config_loads_total', { result: 'invalid' });
}

/** A config was loaded that has no error. */
export function recordLoad(metrics: Metrics, at: number): void {
  metrics.set('config_valid', {}, 1);
  metrics.set('config_last_valid_timestamp_seconds', {}, at / 1000);
  metrics.replace('config_refused_info', []);
  metrics.replace('config_errors', []);
  metrics.add('config_loads_total', { result: 'valid' });
}

/** @param vanished those of the config files that are gone */
export function recordConfigFiles(
  metrics: Metrics,
  loaded: ValidConfig,
  vanished: ReadonlyMap<string, unknown>,
): void {
  metrics.set('vanished_config_files', {}, vanished.size);
  const empty = emptyFilesOf(loaded);
  const present = loaded.config.configFileNames.filter((file) => !vanished.has(file));
  metrics.replace(
    'config_file_info',
    present.map((file) => ({ labels: { file }, value: empty.includes(file) ? 0 : 1 })),
  );
}

export function recordConfig(metrics: Metrics, { config }: ValidConfig): void {
  metrics.set('config_files', {}, config.configFileNames.length);
  metrics.replace('config_info', [{ labels: { hash: configHash(config) }, value: 1 }]);
  const conflicts = Map.groupBy<string, Problem>(config.problems, ({ kind }) => kind);
  for (const [kind, { severity }] of KINDS_OF_VALID_CONFIG)
    metrics.set('config_problems', { severity, kind }, conflicts.get(kind)?.length ?? 0);
}

export function recordSync(
  metrics: Metrics,
  { policy: { family }, plan, drifted, trigger, duration }: FamilySyncEvent,
  at: number,
): void {
  metrics.add('syncs_total', { family, result: plan === undefined ? 'unchanged' : 'changed' });
  metrics.observe('sync_duration_seconds', { family }, duration);
  metrics.set('last_sync_success_timestamp_seconds', { family }, at / 1000);
  if (plan === undefined) return;
  metrics.set('last_change_timestamp_seconds', { family }, at / 1000);
  if (trigger.reason === 'change') metrics.observe('reaction_duration_seconds', {}, duration);
  if (!drifted) return;
  metrics.add('drift_repairs_total', { family, program: programLabel(trigger.by) });
  for (const found of plan.found) metrics.add('drift_differences_total', { family, found });
}

/**
 * A family has got another policy.
 *
 * @param all the policies of all families now
 */
export function recordPolicy(metrics: Metrics, { family, entries }: Policy, all: readonly Policy[]): void {
  metrics.replace('masquerade_address_ranges', all.flatMap(addressRanges));
  for (const verdict of ['not_masqueraded', 'masqueraded'] as const) {
    const count = entries.filter((entry) => entry.verdict === verdict).length;
    metrics.set('config_entries', { family, verdict }, count);
  }
}

/** @param read a reading of connection tracking; undefined if it could not be read */
export function recordFlows(
  metrics: Metrics,
  families: readonly Family[],
  read: { readonly against: FlowsAgainst; readonly ports: PortCounter | undefined } | undefined,
): void {
  if (read === undefined) {
    metrics.replace('flows_against_policy', []);
    metrics.replace('port_usage_ratio', []);
    return;
  }
  const { against, ports } = read;
  for (const family of families) {
    for (const verdict of TREATMENTS)
      for (const since of BEGINNINGS) {
        const labels = { family, verdict, since };
        metrics.set('flows_against_policy', labels, against.count(labels));
      }
    if (ports !== undefined) metrics.set('port_usage_ratio', { family }, ports.highestShare(family));
  }
}

const COUNTED = [
  'masqueraded_connections_total',
  'not_masqueraded_connections_total',
  'connections_from_elsewhere_total',
  'invalid_packets_total',
] as const;

export function recordCounts(metrics: Metrics, counts: ReadonlyMap<Family, readonly EntryCount[]>): void {
  for (const name of COUNTED) metrics.clear(name);
  for (const [family, some] of counts)
    for (const { entry, countedAs, packets } of some) {
      const count = Number(packets);
      const file = entry && originName(entry.origin);
      if (countedAs === 'masqueraded') metrics.add('masqueraded_connections_total', { family }, count);
      else if (countedAs === 'invalid') metrics.add('invalid_packets_total', { family }, count);
      else if (file === undefined) metrics.add('connections_from_elsewhere_total', { family }, count);
      else metrics.add('not_masqueraded_connections_total', { family, file }, count);
    }
}

/** The config file of an origin, or what a default follows, such as `RFC 3927`. */
function originName(origin: Origin): string {
  return origin.kind === 'file' ? origin.configFile : origin.basis;
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
export function beginAtZero(metrics: Metrics, family: Family, dataplane: Dataplane | undefined): void {
  for (const result of ['changed', 'unchanged', 'failed']) metrics.add('syncs_total', { family, result }, 0);
  for (const program of PROGRAMS) metrics.add('drift_repairs_total', { family, program }, 0);
  const differences = DIFFERENCES[dataplane?.iptables === undefined ? 'nftables' : 'iptables'];
  for (const found of differences) metrics.add('drift_differences_total', { family, found }, 0);
  for (const result of ['valid', 'invalid']) metrics.add('config_loads_total', { result }, 0);
  for (const reason of ['busy', 'raced', 'exhausted']) metrics.add('sync_retries_total', { reason }, 0);
}

import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Family } from '../policy/policy.ts';
import { printable } from '../text/escape.ts';

interface Definition {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly help: string;
}

const counter = define('counter');
const gauge = define('gauge');
const histogram = define('histogram');

function define<const Type extends Definition['type']>(type: Type) {
  return <const Labels extends readonly string[]>(labels: Labels, help: string) => ({ type, labels, help });
}

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

export const METRIC_PREFIX = 'ip_masq_agent_';

/** The metrics of the agent itself, by name without the prefix. The documentation is made from this table too. */
export const METRICS = {
  build_info: gauge(
    ['version', 'commit', 'nodejs', 'dataplane'],
    'Always 1; the labels name the build and the dataplane.',
  ),
  syncs_total: counter(
    ['family', 'result'],
    'Syncs by result: changed or unchanged. A sync that fails before it changes anything is not counted: the agent ends, or it tries again and ip_masq_agent_rules_out_of_sync becomes 1.',
  ),
  sync_duration_seconds: histogram(
    ['family'],
    'Time from the reason for a sync until the kernel holds the config, pauses included.',
  ),
  last_sync_success_timestamp_seconds: gauge(['family'], 'Time of the last successful sync.'),
  last_change_timestamp_seconds: gauge(['family'], 'Time of the last change of the rules in the kernel.'),
  reaction_duration_seconds: histogram(
    [],
    'Time from a change of the config files until the kernel holds it.',
  ),
  sync_retries_total: counter(
    ['reason'],
    'Repeated attempts by reason: busy (a lock), raced (the kernel changed in between) or exhausted (no free file, process or memory).',
  ),
  drift_repairs_total: counter(
    ['family', 'program'],
    'Repairs of rules that another program has changed, by that program: iptables, iptables-restore, nft, other, several, or unknown if no event of the kernel names it. A flush of both families is one repair in each.',
  ),
  rules_out_of_sync: gauge(
    [],
    "1 as soon as the kernel has not held the agent's rules for 5 seconds, and 0 again as soon as it has held them for 5 seconds. If it is 1, a repair fails or takes long, the rules cannot be read, or another program changes them so often that no sync finds them as they must be.",
  ),
  netlink_active: gauge(
    [],
    '1 if the agent reads nf_tables over netlink, and gets an event with each change; 0 if that fails, so that only the resync finds drift. Absent in legacy mode.',
  ),
  config_valid: gauge(
    [],
    '1 if the last reading of the config files had no error, else 0. 0 is possible only with --on-invalid-config=keep: without it, the agent ends with exit code 3.',
  ),
  vanished_config_files: gauge(
    [],
    'Config files that are gone, but whose last texts still apply until --vanished-grace ends.',
  ),
  last_valid_config_kept: gauge(
    [],
    '1 if the directory of --state-dir holds the config that is in use, 0 if it cannot be written. Absent without --state-dir.',
  ),
  config_files: gauge([], 'Merged config files; 0 if the defaults apply.'),
  config_file_info: gauge(
    ['file'],
    'One series for each config file that was read last: 1, or 0 if it sets no key.',
  ),
  config_entries: gauge(
    ['family', 'verdict'],
    'Entries of the policy by verdict: masqueraded or not_masqueraded.',
  ),
  config_problems: gauge(
    ['severity', 'kind'],
    'Conflicts between config files or within one config file, and what the checks find, such as nothing-inside; 0 for a kind without any.',
  ),
  config_errors: gauge(
    ['kind'],
    'Errors of the last reading of the config files by kind, such as assertion. Only agents with --on-invalid-config=keep report these, because others end.',
  ),
  config_info: gauge(['hash'], 'Always 1; the hash is equal on all nodes whose merged config is equal.'),
  pending_config_seconds: gauge([], 'Seconds until the pending config is applied; absent if there is none.'),
  masquerade_address_ranges: gauge(
    ['family', 'found'],
    'Ranges of masqueradeAddresses, by how many equally good addresses of the node they hold: none, one or several. If there is none, the kernel chooses the address, which may be the wrong one. If there are several, the agent uses the lowest, and a lower one as soon as it comes. Present only while a config lists any range.',
  ),
  rules: gauge(['family'], 'Rules and elements of sets that the kernel must hold.'),
  masqueraded_pod_routes: gauge(
    ['family'],
    'Routes of the node to pods that the config masquerades. Counted at the start, after each change, and every five minutes. Absent if the node has more than 100,000 routes, or 20,000 by links to pods.',
  ),
  flows_against_policy: gauge(
    ['family', 'verdict', 'since'],
    'Connections of pods that the kernel treats differently from what the policy asks. The verdict is what happens to them: masqueraded, not_masqueraded, or other_address (masqueraded with another address than masqueradeAddresses asks for, or with an address that the node does not have). Those that began before the last change of the agent keep the address with which they began; another program decides about those that began after it. Counted after each change, every five minutes, and at SIGHUP. Absent with --stale-flows=off, and if conntrack is not read.',
  ),
  port_usage_ratio: gauge(
    ['family'],
    'The highest share of source ports in use for connections from one address of the node to one destination and its port, from 0 to 1. At 1, new connections to it fail. Counted every five minutes. Absent if ip_masq_agent_flows_against_policy is absent.',
  ),
  masqueraded_connections_total: counter(
    ['family'],
    'New connections that are masqueraded. The kernel counts from zero when the agent writes the rules.',
  ),
  not_masqueraded_connections_total: counter(
    ['family', 'file'],
    'New connections that are not masqueraded, by the config file that asks for it.',
  ),
  connections_from_elsewhere_total: counter(
    ['family'],
    'New connections that are not masqueraded because of their source: masqueradeFromCIDRs does not list it, or nonMasqueradeFromCIDRs does. Present only while one of them lists any range. If the counter grows and only masqueradeFromCIDRs is set, a range of pods may be missing there.',
  ),
  invalid_packets_total: counter(
    ['family'],
    'Packets that connection tracking refuses or does not track, and that would leave with the address of a pod. With --invalid-packets=drop they are dropped. Present only if the rules are in nftables, and not with --invalid-packets=off.',
  ),
};

type Table = typeof METRICS;
type Named<Type extends Definition['type']> = {
  [Name in keyof Table]: Table[Name]['type'] extends Type ? Name : never;
}[keyof Table];
type Labels<Name extends keyof Table> = {
  readonly [Label in Table[Name]['labels'][number]]: Label extends 'family' ? Family : string;
};

type NameWithoutLabels = {
  [Name in Named<'gauge'>]: Table[Name]['labels'] extends readonly [] ? Name : never;
}[Named<'gauge'>];

const KINDS = { counter: Counter, gauge: Gauge, histogram: Histogram } as const;

/** From 1 ms to 30 s, which is the default of --sync-timeout. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** The metrics for Prometheus: those of the table, and the start of the process. */
export class Metrics {
  readonly #registry = new Registry();

  constructor() {
    for (const [suffix, { type, labels, help }] of Object.entries<Definition>(METRICS)) {
      const name = METRIC_PREFIX + suffix;
      const buckets = type === 'histogram' && { buckets: BUCKETS };
      new KINDS[type]({ name, help, labelNames: [...labels], registers: [this.#registry], ...buckets });
      if (type === 'gauge') this.clear(suffix as Named<'gauge'>);
    }
    const started = { name: 'process_start_time_seconds', help: 'Time of the start of the agent.' };
    new Gauge({ ...started, registers: [this.#registry] }).set(performance.timeOrigin / 1000);
  }

  add<Name extends Named<'counter'>>(name: Name, labels: Labels<Name>, value = 1): void {
    this.#named<Counter>(name).inc(shown(labels), value);
  }

  set<Name extends Named<'gauge'>>(name: Name, labels: Labels<Name>, value: number): void {
    this.#named<Gauge>(name).set(shown(labels), value);
  }

  /** Sets a gauge without labels; it has no value if the value is undefined. */
  setOnly(name: NameWithoutLabels, value: number | boolean | undefined): void {
    this.replace(name, value === undefined ? [] : [{ labels: {}, value: Number(value) }]);
  }

  /** Sets a gauge for these labels, and removes all other labels of it. */
  replace<Name extends Named<'gauge'>>(
    name: Name,
    values: readonly { readonly labels: Labels<Name>; readonly value: number }[],
  ): void {
    this.clear(name);
    for (const { labels, value } of values) this.set(name, labels, value);
  }

  /** Removes all series. prom-client gives a gauge without labels the value 0, which nobody has measured. */
  clear<Name extends Named<'counter' | 'gauge'>>(name: Name): void {
    const metric = this.#named<Counter | Gauge>(name);
    metric.reset();
    if (METRICS[name].labels.length === 0) metric.remove();
  }

  /** Adds a duration, in seconds, to a histogram. */
  observe<Name extends Named<'histogram'>>(name: Name, labels: Labels<Name>, seconds: number): void {
    this.#named<Histogram>(name).observe(shown(labels), seconds);
  }

  #named<Kind extends Counter | Gauge | Histogram>(name: string): Kind {
    return this.#registry.getSingleMetric(METRIC_PREFIX + name) as Kind;
  }

  /** The metrics in the text format of Prometheus. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }
}

/** The labels with their values printable: names of files reach the terminal of whoever runs curl. */
function shown(labels: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, printable(value)]));
}

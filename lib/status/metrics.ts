import { unreadyReason } from '../agent/out-of-sync.ts';
import { appliedPolicies, type State } from '../agent/state.ts';
import { configHash } from '../config/config-hash.ts';
import { emptyFilesOf } from '../config/load.ts';
import { KINDS_OF_VALID_CONFIG, type Problem } from '../config/problem.ts';
import { BEGINNINGS, TREATMENTS } from '../policy/flow-counts.ts';
import { addressRequests, bestAddresses, type Family, type Policy } from '../policy/policy.ts';
import type { About } from './status-json.ts';

export type LabelValues<Label extends string> = {
  readonly [One in Label]: One extends 'family' ? Family : string;
};

interface Series<Label extends string> {
  readonly labels: LabelValues<Label>;
  /** Undefined if there is no such series. */
  readonly value: number | boolean | undefined;
}

const counter = <const Label extends string>(labels: readonly Label[], help: string) =>
  ({ type: 'counter', labels, help }) as const;

const histogram = <const Label extends string>(labels: readonly Label[], help: string) =>
  ({ type: 'histogram', labels, help }) as const;

/** A gauge is a fact, which is read from the state at each scrape. */
const gauge = <const Label extends string>(
  labels: readonly Label[],
  help: string,
  read: (state: State, about: About) => readonly Series<Label>[],
) => ({ type: 'gauge', labels, help, read }) as const;

/** A gauge without labels. */
const single = (help: string, read: (state: State) => Series<never>['value']) =>
  gauge([], help, (state) => [{ labels: {}, value: read(state) }]);

export const METRIC_PREFIX = 'ip_masq_agent_';

/** The metrics of the agent itself, by name without the prefix. The documentation is made from this table too. */
export const METRICS = {
  build_info: gauge(
    ['version', 'commit', 'nodejs', 'dataplane'],
    'Always 1; the labels name the build and the dataplane.',
    ({ dataplane }, { build: { version, commit, nodejs } }) => [
      { labels: { version, commit, nodejs, dataplane: dataplane?.name ?? '' }, value: 1 },
    ],
  ),
  syncs_total: counter(
    ['family', 'result'],
    'Syncs by result: changed or unchanged. A sync that fails before it changes anything is not counted: the agent ends, or it tries again and ip_masq_agent_rules_out_of_sync becomes 1.',
  ),
  sync_duration_seconds: histogram(
    ['family'],
    'Time from the reason for a sync until the kernel holds the config, pauses included.',
  ),
  last_sync_success_timestamp_seconds: gauge(
    ['family'],
    "Time when the kernel was last found to hold the agent's rules.",
    ({ families }) => byFamily(families, ({ lastSync }) => lastSync && lastSync / 1000),
  ),
  last_change_timestamp_seconds: gauge(
    ['family'],
    'Time of the last change of the rules in the kernel.',
    ({ families }) => byFamily(families, ({ lastChange }) => lastChange && lastChange / 1000),
  ),
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
  rules_out_of_sync: single(
    "1 as soon as the kernel has not held the agent's rules for 5 seconds, and 0 again as soon as it has held them for 5 seconds. If it is 1, a repair fails or takes long, the rules cannot be read, or another program changes them so often that no sync finds them as they must be.",
    ({ outOfSync }) => unreadyReason(outOfSync, performance.now()) !== undefined,
  ),
  netlink_active: single(
    '1 if the agent reads nf_tables over netlink, and gets an event with each change; 0 if that fails, so that only the resync finds drift. Absent in legacy mode.',
    ({ netlink, dataplane }) => {
      // In the search for the mode, netlink may have been asked.
      const isUsed = netlink !== undefined && dataplane?.iptables?.mode !== 'legacy';
      return isUsed ? netlink === 'works' : undefined;
    },
  ),
  config_valid: single(
    '1 if the last reading of the config files had no error, else 0. 0 is possible only with --on-invalid-config=keep: without it, the agent ends with exit code 3.',
    ({ reading, invalid }) => reading && invalid === undefined,
  ),
  vanished_config_files: single(
    'Config files that are gone, but whose last texts still apply until --vanished-grace ends.',
    ({ inUse, vanished }) => inUse && vanished.size,
  ),
  last_valid_config_kept: single(
    '1 if the directory of --state-dir holds the config that is in use, 0 if it could not be written, or not yet. Absent without --state-dir, and before the rules of a config are in the kernel.',
    ({ families, inUse, keptFiles }) =>
      families.size > 0 ? keptFiles && keptFiles === inUse?.configFiles : undefined,
  ),
  config_files: single(
    'Merged config files; 0 if the defaults apply.',
    ({ inUse }) => inUse?.config.configFileNames.length,
  ),
  config_file_info: gauge(
    ['file'],
    'One series for each config file that was read last: 1, or 0 if it sets no key.',
    configFileInfo,
  ),
  config_entries: gauge(
    ['family', 'verdict'],
    'Entries of the policy by verdict: masqueraded or not_masqueraded.',
    configEntries,
  ),
  config_problems: gauge(
    ['severity', 'kind'],
    'Conflicts between config files or within one config file, and what the checks find, such as nothing-inside; 0 for a kind without any.',
    configProblems,
  ),
  config_errors: gauge(
    ['kind'],
    'Errors of the last reading of the config files by kind, such as assertion. Only agents with --on-invalid-config=keep report these, because others end.',
    ({ invalid }) => {
      const errors = Map.groupBy(invalid?.error.problems ?? [], ({ kind }) => kind);
      return Array.from(errors, ([kind, { length: value }]) => ({ labels: { kind }, value }));
    },
  ),
  config_info: gauge(
    ['hash'],
    'Always 1; the hash is equal on all nodes whose merged config is equal.',
    ({ inUse }) => (inUse ? [{ labels: { hash: configHash(inUse.config) }, value: 1 }] : []),
  ),
  pending_config_seconds: single(
    'Seconds until the pending config is applied; absent if there is none.',
    ({ pending }) => pending && Math.max(0, pending.dueAt - performance.now()) / 1000,
  ),
  masquerade_address_ranges: gauge(
    ['family', 'found'],
    'Ranges of masqueradeAddresses, by how many equally good addresses of the node they hold: none, one or several. If there is none, the kernel chooses the address, which may be the wrong one. If there are several, the agent uses the lowest, and a lower one as soon as it comes. Present only while a config lists any range.',
    (state) => appliedPolicies(state).flatMap(addressRanges),
  ),
  rules: gauge(['family'], 'Rules and elements of sets that the kernel must hold.', ({ families }) =>
    byFamily(families, ({ policy, dataplane }) => dataplane.ruleCount(policy)),
  ),
  masqueraded_pod_routes: gauge(
    ['family'],
    'Routes of the node to pods that the config masquerades. Counted at the start, after each change, and every five minutes. Absent if the node has more than 100,000 routes, or 20,000 by links to pods.',
    ({ podRoutes }) => byFamily(podRoutes, (routes) => routes),
  ),
  flows_against_policy: gauge(
    ['family', 'verdict', 'since'],
    'Connections of pods that the kernel treats differently from what the policy asks. The verdict is what happens to them: masqueraded, not_masqueraded, or other_address (masqueraded with another address than masqueradeAddresses asks for, or with an address that the node does not have). Those that began before the last change of the agent keep the address with which they began; another program decides about those that began after it. Counted after each change, every five minutes, and at SIGHUP. Absent with --stale-flows=off, and if conntrack is not read.',
    flowsAgainstPolicy,
  ),
  port_usage_ratio: gauge(
    ['family'],
    'The highest share of source ports in use for connections from one address of the node to one destination and its port, from 0 to 1. At 1, new connections to it fail. Counted every five minutes. Absent if ip_masq_agent_flows_against_policy is absent.',
    ({ flows }) => byFamily(flows?.portUsage, (share) => share),
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

/** A series for each family. */
function byFamily<Known>(
  families: ReadonlyMap<Family, Known> | undefined,
  count: (known: Known) => number | undefined,
) {
  return Array.from(families ?? [], ([family, known]) => ({ labels: { family }, value: count(known) }));
}

function configFileInfo({ inUse, vanished }: State) {
  if (inUse === undefined) return [];
  const empty = emptyFilesOf(inUse);
  const files = inUse.config.configFileNames.filter((file) => !vanished.has(file));
  return files.map((file) => ({ labels: { file }, value: !empty.includes(file) }));
}

function configProblems({ inUse }: State) {
  if (inUse === undefined) return [];
  const found = Map.groupBy<string, Problem>(inUse.config.problems, ({ kind }) => kind);
  return Array.from(KINDS_OF_VALID_CONFIG, ([kind, { severity }]) => ({
    labels: { severity, kind },
    value: found.get(kind)?.length ?? 0,
  }));
}

function configEntries(state: State) {
  return appliedPolicies(state).flatMap(({ family, entries }) =>
    (['not_masqueraded', 'masqueraded'] as const).map((verdict) => ({
      labels: { family, verdict },
      value: entries.filter((entry) => entry.verdict === verdict).length,
    })),
  );
}

/** How many addresses are found, in words; the last is for any more. */
const FOUND = ['none', 'one', 'several'] as const;

/** How many ranges of masqueradeAddresses hold so many addresses of the node; empty if the policy asks for none. */
function addressRanges(policy: Policy) {
  const counts = addressRequests(policy).map((one) => Math.min(bestAddresses(one).length, FOUND.length - 1));
  if (counts.length === 0) return [];
  return FOUND.map((found, index) => ({
    labels: { family: policy.family, found },
    value: counts.filter((count) => count === index).length,
  }));
}

function flowsAgainstPolicy({ families, flows }: State) {
  if (flows === undefined) return [];
  const kinds = TREATMENTS.flatMap((verdict) => BEGINNINGS.map((since) => ({ verdict, since })));
  return [...families.keys()].flatMap((family) =>
    kinds.map(({ verdict, since }) => {
      const found = flows.counts.find(
        (one) => one.family === family && one.verdict === verdict && one.since === since,
      );
      return { labels: { family, verdict, since }, value: found?.flows ?? 0 };
    }),
  );
}

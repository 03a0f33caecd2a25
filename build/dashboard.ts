import { METRIC_PREFIX, METRICS } from '../lib/status/metrics.ts';
import {
  AGE,
  ALL_ARE_GOOD,
  bars,
  DATASOURCE,
  FAST,
  heatmap,
  IN_TIME,
  LINES,
  layOut,
  NEUTRAL,
  NONE_IS_GOOD,
  ONE_IS_GOOD,
  type Panel,
  POINTS,
  SECONDS,
  SHARE,
  STACKED_LINES,
  STACKED_STEPS,
  STEPS,
  series,
  stat,
  table,
} from './grafana.ts';

const SELECTED = '{cluster=~"$cluster",node=~"$node"}';

/** The metrics of the chosen nodes; histograms by their buckets. */
const m = Object.fromEntries(
  Object.entries(METRICS).map(([name, { type }]) => [
    name,
    `${METRIC_PREFIX}${name}${type === 'histogram' ? '_bucket' : ''}${SELECTED}`,
  ]),
) as Readonly<Record<keyof typeof METRICS, string>>;

/** Connections about which another program decides. */
const SINCE = m.flows_against_policy.replace('}', ',since="after"}');

/** The panels by the titles of their rows. */
const ROWS: Readonly<Record<string, readonly Panel[]>> = {
  Fleet: [
    stat([4, 4], 'Agents', 'Agents that Prometheus reaches now.', `count(${m.build_info}) or vector(0)`, {
      red: null,
      green: 1,
    }),
    stat(
      [4, 4],
      'Ready',
      'Share of the agents that say that traffic can rely on their rules: the last config is valid, no sync is older than "Late after", and no other program undoes the rules again and again.',
      `(count(min by (cluster, node) (${m.config_valid}) == 1 and on (cluster, node) time() - min by (cluster, node) (${m.last_sync_success_timestamp_seconds}) <= $late unless on (cluster, node) ${m.rules_out_of_sync} == 1) or vector(0)) / count(${m.build_info})`,
      ALL_ARE_GOOD,
      SHARE,
    ),
    stat(
      [4, 4],
      'Oldest sync',
      'How long ago the last successful sync was, on the node with the oldest one.',
      `max(time() - ${m.last_sync_success_timestamp_seconds})`,
      IN_TIME,
      AGE,
    ),
    stat(
      [4, 4],
      'Gone',
      'Agents that Prometheus scraped in the shown time and does not reach now: removed nodes, or agents that crash.',
      `count(count by (cluster, node) (count_over_time(${m.build_info}[$__range]) unless on (cluster, node) ${m.build_info})) or vector(0)`,
      NONE_IS_GOOD,
    ),
    stat(
      [4, 4],
      'Restarts',
      'Restarts of agents in the shown time: an invalid config ends an agent, and so does a sync that keeps failing.',
      `sum(changes(process_start_time_seconds${SELECTED}[$__range]) and on (cluster, job, instance) ${m.build_info})`,
      NONE_IS_GOOD,
    ),
    stat(
      [4, 4],
      'Versions',
      'Number of different versions of the agent that run now.',
      `count(count by (version) (${m.build_info})) or vector(0)`,
      ONE_IS_GOOD,
    ),
    series(
      [12, 8],
      'Syncs by result',
      'Syncs of all agents: those that changed the kernel, and those that found nothing to change.',
      { '{{result}}': `sum by (result) (rate(${m.syncs_total}[$__rate_interval]))` },
      STACKED_LINES,
      'ops',
      { unchanged: 'green', changed: 'blue' },
    ),
    bars(
      [12, 8],
      'Agents by version and dataplane',
      'How many agents run each version with each dataplane.',
      { '{{version}}, {{dataplane}}': `count by (version, dataplane) (${m.build_info})` },
    ),
    table(
      [24, 9],
      'Each agent',
      'Each agent: its version, its config, its last successful sync, its repairs, and connections on its node about which another program decides.',
      [
        `sum by (cluster, node, version, dataplane) (${m.build_info})`,
        `sum by (cluster, node, hash) (${m.config_info})`,
        `time() - min by (cluster, node) (${m.last_sync_success_timestamp_seconds})`,
        `time() - max by (cluster, node) (${m.last_change_timestamp_seconds})`,
        `sum by (cluster, node) (${m.rules})`,
        `sum by (cluster, node) (${m.drift_repairs_total})`,
        `sum by (cluster, node) (${SINCE})`,
      ],
      {
        cluster: 'Cluster',
        node: 'Node',
        version: 'Version',
        dataplane: 'Dataplane',
        hash: 'Config',
        'Value #C': 'Last sync',
        'Value #D': 'Last change',
        'Value #E': 'Rules',
        'Value #F': 'Drift repairs',
        'Value #G': 'Others decide',
      },
      'Last sync',
    ),
  ],
  'Config rollout': [
    stat(
      [4, 4],
      'Configs in use',
      'Number of different merged configs that agents hold now; it is more than one while a change rolls out.',
      `count(count by (hash) (${m.config_info})) or vector(0)`,
      ONE_IS_GOOD,
    ),
    stat(
      [4, 4],
      'On the config of their DaemonSet',
      'Share of the nodes that need an agent and hold the config that most nodes of their DaemonSet hold. It is about whole clusters, whichever nodes are chosen, and needs kube-state-metrics.',
      '(sum(max by (cluster, namespace, created_by_name) (count by (cluster, namespace, created_by_name, hash) (ip_masq_agent_config_info{cluster=~"$cluster"} * on (cluster, namespace, pod) group_left (created_by_name) max by (cluster, namespace, pod, created_by_name) (kube_pod_info{cluster=~"$cluster",created_by_kind="DaemonSet"})))) or vector(0)) / sum(max by (cluster, namespace, daemonset) (kube_daemonset_status_desired_number_scheduled{cluster=~"$cluster",daemonset=~"ip-masq-agent(-.+)?",daemonset!="ip-masq-agent-node-readiness"}))',
      ALL_ARE_GOOD,
      SHARE,
    ),
    stat(
      [4, 4],
      'Config files',
      'Config files that agents merge, on the nodes with the fewest and with the most; 0 if the defaults apply.',
      { fewest: `min(${m.config_files})`, most: `max(${m.config_files})` },
      { orange: null, green: 1 },
    ),
    stat(
      [4, 4],
      'Conflicts',
      'Conflicts between config files or within one, and what the checks find, on the node with the most.',
      `max(sum by (cluster, node) (${m.config_problems})) or vector(0)`,
      NONE_IS_GOOD,
    ),
    stat(
      [4, 4],
      'Last change',
      'How long ago an agent last changed the rules of any node.',
      `time() - max(${m.last_change_timestamp_seconds})`,
      NEUTRAL,
      AGE,
    ),
    series(
      [8, 8],
      'Nodes by config',
      'How many nodes hold each merged config, by its hash: in a rollout one colour replaces another.',
      { '{{hash}}': `count by (hash) (${m.config_info})` },
      STACKED_STEPS,
    ),
    series(
      [8, 8],
      'Entries per node',
      'Entries of the policy by what they ask for, on the node with the most.',
      { '{{family}} {{verdict}}': `max by (family, verdict) (${m.config_entries})` },
      STEPS,
    ),
    series(
      [8, 8],
      'Conflicts by kind',
      'Conflicts between config files or within one, and what the checks find, on the node with the most of each kind.',
      { '{{severity}} {{kind}}': `max by (severity, kind) (${m.config_problems})` },
      STEPS,
    ),
    series(
      [8, 8],
      'Nodes by config file',
      'How many nodes read each config file (a line that falls is a config file that vanishes), how many files are gone but still apply, how many nodes wait for their time in a rollout window, and how many do not keep the last valid config.',
      {
        '{{file}}': orNone('file', `count by (file) (${m.config_file_info})`),
        'gone, but still apply': `sum(${m.vanished_config_files})`,
        'a config is pending': `count(${m.pending_config_seconds}) or vector(0)`,
        'last valid config not kept': `count(${m.last_valid_config_kept} == 0) or vector(0)`,
      },
      STACKED_STEPS,
    ),
    series(
      [8, 8],
      'Rules and elements',
      'Rules and set elements that the policy needs in the kernel, on the nodes with the most and with the fewest.',
      {
        '{{family}} most': `max by (family) (${m.rules})`,
        '{{family}} fewest': `min by (family) (${m.rules})`,
      },
      STEPS,
    ),
    series(
      [8, 8],
      'Errors of refused configs',
      'Errors by kind of the configs that agents with --on-invalid-config=keep refuse.',
      { '{{kind}}': orNone('kind', `max by (kind) (${m.config_errors})`) },
      STEPS,
    ),
  ],
  'Reaction and sync times': [
    stat(
      [6, 4],
      'Reaction, median',
      'Half of the config changes in the shown time were in the kernel after at most this long.',
      `histogram_quantile(0.5, sum by (le) (rate(${m.reaction_duration_seconds}[$__range])))`,
      FAST,
      SECONDS,
    ),
    stat(
      [6, 4],
      'Reaction, 99th percentile',
      'Nearly all config changes in the shown time were in the kernel after at most this long.',
      `histogram_quantile(0.99, sum by (le) (rate(${m.reaction_duration_seconds}[$__range])))`,
      FAST,
      SECONDS,
    ),
    stat(
      [6, 4],
      'Sync, median',
      'Half of the syncs in the shown time took at most this long.',
      `histogram_quantile(0.5, sum by (le) (rate(${m.sync_duration_seconds}[$__range])))`,
      FAST,
      SECONDS,
    ),
    stat(
      [6, 4],
      'Sync, 99th percentile',
      'Nearly all syncs in the shown time took at most this long.',
      `histogram_quantile(0.99, sum by (le) (rate(${m.sync_duration_seconds}[$__range])))`,
      FAST,
      SECONDS,
    ),
    series(
      [12, 8],
      'Reaction to config changes',
      'From a change of the config files until the kernel holds it; there are points only when there were changes.',
      {
        median: `histogram_quantile(0.5, sum by (le) (rate(${m.reaction_duration_seconds}[$__rate_interval])))`,
        '99th percentile': `histogram_quantile(0.99, sum by (le) (rate(${m.reaction_duration_seconds}[$__rate_interval])))`,
      },
      POINTS,
      's',
    ),
    heatmap(
      [12, 8],
      'Reactions by duration',
      'Number of config changes by the time that they took to reach the kernel.',
      `sum by (le) (increase(${m.reaction_duration_seconds}[$__rate_interval]))`,
    ),
    series(
      [12, 8],
      'Sync duration',
      'From the beginning of a sync until the kernel holds what the config says.',
      {
        '{{family}} median': `histogram_quantile(0.5, sum by (family, le) (rate(${m.sync_duration_seconds}[$__rate_interval])))`,
        '{{family}} 99th percentile': `histogram_quantile(0.99, sum by (family, le) (rate(${m.sync_duration_seconds}[$__rate_interval])))`,
      },
      LINES,
      's',
    ),
    heatmap(
      [12, 8],
      'Syncs by duration',
      'Number of syncs by the time that they took.',
      `sum by (le) (increase(${m.sync_duration_seconds}[$__rate_interval]))`,
    ),
  ],
  'Drift and retries': [
    series(
      [12, 8],
      'Drift repairs',
      'Repairs of rules that another program changed, all families together, by that program as the kernel names it.',
      { '{{program}}': orNone('program', `sum by (program) (${m.drift_repairs_total})`) },
      STEPS,
    ),
    series(
      [12, 8],
      'Retries',
      'Retries since the start of the running agents: busy means a lock, raced means that the kernel changed in between.',
      { '{{reason}}': orNone('reason', `sum by (reason) (${m.sync_retries_total})`) },
      STEPS,
    ),
    table(
      [16, 7],
      'Drift by node',
      "Nodes where another program changes the agent's rules, and that program, since the start of that agent.",
      [orNone('node', `sum by (cluster, node, family, program) (${m.drift_repairs_total}) > 0`)],
      { cluster: 'Cluster', node: 'Node', family: 'Family', program: 'Program', Value: 'Repairs' },
      'Repairs',
    ),
    stat(
      [4, 7],
      'Rules out of sync',
      "Nodes where another program changes the agent's rules so often that no sync finds them.",
      `count(${m.rules_out_of_sync} == 1) or vector(0)`,
      NONE_IS_GOOD,
    ),
    stat(
      [4, 7],
      'Without netlink',
      'Agents whose netlink fails, so that only the resync finds drift.',
      `count(${m.netlink_active} == 0) or vector(0)`,
      NONE_IS_GOOD,
    ),
  ],
  'Other programs': [
    stat(
      [4, 8],
      'Nodes where others decide',
      'Nodes where another program decides about connections of pods: they began after the last change of the agent, and are treated differently from what the config says.',
      `count(sum by (cluster, node) (${SINCE}) > 0) or vector(0)`,
      NONE_IS_GOOD,
    ),
    series(
      [10, 8],
      'Connections against the config',
      'Connections of pods that the kernel treats differently from what the config says, by what happens to them. Those from before the last change keep the address with which they began; another program decides about the others.',
      {
        '{{verdict}}, begun {{since}} the change': orNone(
          'verdict',
          `sum by (verdict, since) (${m.flows_against_policy})`,
        ),
      },
      STEPS,
    ),
    table(
      [10, 8],
      'Connections that others decide, by node',
      'Nodes with such connections; "ip-masq-agent doctor" there names what else does NAT.',
      [orNone('node', `sum by (cluster, node, family, verdict) (${SINCE}) > 0`)],
      { cluster: 'Cluster', node: 'Node', verdict: 'Verdict', family: 'Family', Value: 'Connections' },
      'Connections',
    ),
    series(
      [24, 8],
      'Routes to pods that are masqueraded',
      'Routes to pods that the config masquerades, all nodes together: if there are any, a range of pods is missing in nonMasqueradeCIDRs.',
      { '{{family}}': `sum by (family) (${m.masqueraded_pod_routes})` },
      STEPS,
    ),
  ],
  Traffic: [
    series(
      [16, 9],
      'New connections',
      'New connections, by their first packets: masqueraded, or left alone, by the config file that asks for it.',
      {
        'masqueraded {{family}}': `sum by (family) (rate(${m.masqueraded_connections_total}[$__rate_interval]))`,
        'left alone, {{file}}': `sum by (file) (rate(${m.not_masqueraded_connections_total}[$__rate_interval]))`,
        'left alone, from elsewhere, {{family}}': `sum by (family) (rate(${m.connections_from_elsewhere_total}[$__rate_interval]))`,
      },
      STACKED_LINES,
      'cps',
    ),
    series(
      [8, 9],
      'Masqueraded share',
      'Share of the new connections that are masqueraded.',
      {
        masqueraded: `sum(rate(${m.masqueraded_connections_total}[$__rate_interval])) / (sum(rate(${m.masqueraded_connections_total}[$__rate_interval])) + sum(rate(${m.not_masqueraded_connections_total}[$__rate_interval])))`,
      },
      LINES,
      'percentunit',
    ),
    series(
      [8, 8],
      'Source ports in use',
      'The highest share of source ports that a node uses for one destination and its port; at 100% new connections to it fail.',
      { '{{family}}': orNone('family', `max by (family) (${m.port_usage_ratio})`) },
      STEPS,
      'percentunit',
    ),
    series(
      [8, 8],
      'Ranges of node addresses',
      'Ranges of masqueradeAddresses, all nodes together, by how many addresses of the node they hold. If a range holds none, the kernel chooses the address. All are 0 while no config lists a range.',
      { '{{found}}': orNone('found', `sum by (found) (${m.masquerade_address_ranges})`) },
      STEPS,
    ),
    series(
      [24, 8],
      'Packets that conntrack refuses',
      'Packets of no connection that would leave with the address of a pod, such as a FIN after its connection has expired: counted, or dropped with --invalid-packets=drop.',
      {
        '{{family}}': orNone(
          'family',
          `sum by (family) (rate(${m.invalid_packets_total}[$__rate_interval]))`,
        ),
      },
      STEPS,
      'pps',
    ),
  ],
};

/** A panel for each gauge that no row shows: its highest and its lowest value on any node. */
function otherPanels(): readonly Panel[] {
  const shown = JSON.stringify(ROWS);
  return Object.entries(METRICS).flatMap(([name, { type, labels, help }]) => {
    if (type !== 'gauge' || shown.includes(`${METRIC_PREFIX}${name}{`)) return [];
    const metric = `by (${labels.join(', ')}) (${m[name as keyof typeof m]})`;
    const legend = labels.map((label) => `{{${label}}} `).join('');
    const queries = { [`${legend}most`]: `max ${metric}`, [`${legend}least`]: `min ${metric}` };
    return [series([8, 8], name, help, queries, LINES)];
  });
}

const FRAME = {
  __inputs: [
    {
      name: 'DS_PROMETHEUS',
      label: 'Prometheus',
      description: 'The Prometheus that scrapes the agents',
      type: 'datasource',
      pluginId: 'prometheus',
      pluginName: 'Prometheus',
    },
  ],
  __elements: {},
  __requires: [
    { type: 'grafana', id: 'grafana', name: 'Grafana', version: '10.0.0' },
    { type: 'datasource', id: 'prometheus', name: 'Prometheus', version: '1.0.0' },
    { type: 'panel', id: 'bargauge', name: 'Bar gauge', version: '' },
    { type: 'panel', id: 'heatmap', name: 'Heatmap', version: '' },
    { type: 'panel', id: 'stat', name: 'Stat', version: '' },
    { type: 'panel', id: 'table', name: 'Table', version: '' },
    { type: 'panel', id: 'timeseries', name: 'Time series', version: '' },
  ],
  annotations: {
    list: [
      {
        builtIn: 1,
        datasource: { type: 'grafana', uid: '-- Grafana --' },
        enable: true,
        hide: true,
        iconColor: 'rgba(0, 211, 255, 1)',
        name: 'Annotations & Alerts',
        type: 'dashboard',
      },
    ],
  },
  description:
    'What ip-masq-agent does on all nodes: health, config rollout, reaction times, drift, other programs, traffic.',
  editable: true,
  fiscalYearStartMonth: 0,
  graphTooltip: 1,
  id: null,
  links: [],
  liveNow: false,
  refresh: '1m',
  schemaVersion: 38,
  style: 'dark',
  tags: ['kubernetes', 'network', 'ip-masq-agent'],
  time: { from: 'now-6h', to: 'now' },
  timepicker: {},
  timezone: '',
  title: 'ip-masq-agent',
  uid: 'ip-masq-agent',
  version: 1,
  weekStart: '',
};

/** The dashboard as Grafana imports it. The first two rows are open. */
export function dashboard() {
  const panels: unknown[] = [];
  let id = 0;
  let y = 0;
  const rows = Object.entries({ ...ROWS, Other: otherPanels() }).filter(([, row]) => row.length > 0);
  for (const [index, [title, row]] of rows.entries()) {
    const collapsed = index > 1;
    const head = { type: 'row', id: ++id, title, collapsed, gridPos: { h: 1, w: 24, x: 0, y } };
    const { placed, bottom } = layOut(row, y + 1);
    const numbered = placed.map((panel) => ({ ...panel, id: ++id }));
    panels.push(...(collapsed ? [{ ...head, panels: numbered }] : [head, ...numbered]));
    y = collapsed ? y + 1 : bottom;
  }
  return { ...FRAME, panels, templating: { list: variables() } };
}

function variables() {
  const source = {
    current: { selected: true, text: 'Prometheus', value: `\${DS_PROMETHEUS}` },
    hide: 0,
    includeAll: false,
    label: 'Data source',
    multi: false,
    name: 'datasource',
    options: [],
    query: 'prometheus',
    refresh: 1,
    regex: '',
    skipUrlSync: false,
    type: 'datasource',
  };
  const late = {
    current: { selected: true, text: '3 minutes', value: '180' },
    description: 'Three resync intervals, the limit that /readyz uses',
    hide: 0,
    includeAll: false,
    label: 'Late after',
    multi: false,
    name: 'late',
    options: [
      { selected: true, text: '3 minutes', value: '180' },
      { selected: false, text: '15 minutes', value: '900' },
      { selected: false, text: '1 hour', value: '3600' },
      { selected: false, text: '3 hours', value: '10800' },
    ],
    query: '3 minutes : 180, 15 minutes : 900, 1 hour : 3600, 3 hours : 10800',
    queryValue: '',
    skipUrlSync: false,
    type: 'custom',
  };
  return [
    source,
    chosen('Cluster', 'cluster', `${METRIC_PREFIX}build_info`),
    chosen('Node', 'node', `${METRIC_PREFIX}build_info{cluster=~"$cluster"}`),
    late,
  ];
}

/** A variable with the values of a label, all of which are chosen at first. */
function chosen(label: string, name: string, metric: string) {
  const query = `label_values(${metric}, ${name})`;
  return {
    ...{ name, label, type: 'query', datasource: DATASOURCE, definition: query },
    query: { qryType: 1, query, refId: 'PrometheusVariableQueryEditor-VariableQuery' },
    ...{ allValue: '.*', current: { selected: true, text: ['All'], value: ['$__all'] } },
    ...{
      includeAll: true,
      multi: true,
      hide: 0,
      options: [],
      refresh: 2,
      regex: '',
      skipUrlSync: false,
      sort: 1,
    },
  };
}

/** The query, or if it has no answer, 0 with the label "none". */
function orNone(label: string, query: string): string {
  return `${query} or on () label_replace(vector(0), "${label}", "none", "", "")`;
}

import {
  ALWAYS,
  type AlertCase,
  crashing,
  type Firing,
  FROM,
  healthy,
  ofAgent,
  ofPod,
  type Series,
  series,
  UNTIL,
  wanted,
} from './alerts.ts';

const OURS = { namespace: 'net-system' };
const TAINT = { key: 'readiness.k8s.io/ip-masq-agent', effect: 'NoSchedule' };
const TWO: Series = { ...wanted(2), ...healthy('a'), ...healthy('b') };

function fires(alert: string, value: number, names: string, labels: Firing['labels'] = {}): Firing {
  return { alert: `IpMasqAgent${alert}`, labels: { ...OURS, ...labels }, value, names };
}

/** A gauge of node a that fires an alert after its patience, and not before. */
function simple(
  alert: Firing,
  metric: string,
  labels: Readonly<Record<string, string>>,
  values: string,
  before: number,
  after: number,
): AlertCase {
  return {
    name: `${alert.alert}: ${metric} ${values}`,
    series: { ...TWO, [ofAgent('a', metric, labels)]: values },
    firing: { [before]: [], [after]: [alert] },
  };
}

export const ALERT_CASES: readonly AlertCase[] = [
  {
    name: "healthy agents of a release called netstack, on the two of four nodes that have v1's label",
    series: {
      ...TWO,
      [series('kube_node_info', { node: 'c' })]: ALWAYS(1),
      [series('kube_node_info', { node: 'w', os_image: 'Windows Server 2022' })]: ALWAYS(1),
      [ofAgent('a', 'drift_repairs_total', { family: 'IPv4', program: 'nft' })]: '0x20 1x1500',
      [ofAgent('a', 'flows_against_policy', { family: 'IPv4', verdict: 'masqueraded', since: 'before' })]:
        ALWAYS(4),
      [ofAgent('a', 'config_problems', { severity: 'info', kind: 'opposite-nested' })]: ALWAYS(2),
    },
    firing: { 5: [], 30: [], 120: [] },
  },
  {
    name: 'nodes without a pod, with one that does not start, and with one that ends with exit code 137',
    series: { ...TWO, ...wanted(5), ...ofPod('c'), ...crashing('d', 137, 3) },
    firing: { 14: [], 25: [fires('Missing', 3, 'c, d')] },
  },
  {
    name: 'an agent that Prometheus can no longer reach, and one whose node has gone',
    series: {
      ...wanted(1),
      ...healthy('b'),
      ...ofPod('a'),
      [ofAgent('a', 'build_info')]: UNTIL(10),
      [ofAgent('b', 'build_info')]: UNTIL(10),
      [series('kube_pod_info', { ...OURS, pod: 'netstack-b', node: 'b' })]: UNTIL(10),
    },
    firing: { 25: [], 35: [fires('Missing', 1, 'a, b')] },
  },
  {
    name: 'a cluster whose only DaemonSet, the one that the first rule names, has no pod yet',
    series: {
      [series('kube_node_info', { node: 'a' })]: ALWAYS(1),
      [series('kube_daemonset_status_desired_number_scheduled', {
        namespace: 'kube-system',
        daemonset: 'ip-masq-agent',
      })]: ALWAYS(1),
    },
    firing: { 14: [], 16: [fires('Missing', 1, '', { namespace: 'kube-system' })] },
  },
  {
    name: 'a Prometheus that knows nothing',
    series: {},
    firing: { 14: [], 16: [{ ...fires('Missing', 1, ''), labels: {} }] },
  },
  {
    name: 'one bad ConfigMap, because of which all agents end with exit code 3, is one alert',
    series: { ...wanted(2), ...crashing('a', 3), ...crashing('b', 3) },
    firing: {
      14: [],
      16: [fires('ConfigRefused', 2, 'netstack-a, netstack-b')],
      900: [fires('ConfigRefused', 2, 'netstack-a, netstack-b')],
    },
  },
  {
    name: 'a kernel that refuses the rules: exit code 1',
    series: { ...wanted(1), ...crashing('a', 1) },
    firing: {
      14: [],
      16: [fires('RulesNotInPlace', 1, 'netstack-a')],
      60: [fires('RulesNotInPlace', 1, 'netstack-a')],
    },
  },
  simple(fires('RulesNotInPlace', 1, 'netstack-a'), 'rules_out_of_sync', {}, '0x9 1x1500', 14, 16),
  simple(
    fires('RulesNotInPlace', 1, 'netstack-a'),
    'last_sync_success_timestamp_seconds',
    { family: 'IPv6' },
    '0+60x9 600x1500',
    24,
    27,
  ),
  {
    name: 'a node whose taint stays, and nodes that join one after the other, of which one has no agent',
    series: {
      ...TWO,
      [series('kube_node_spec_taint', { node: 'a', ...TAINT })]: FROM(10),
      ...Object.fromEntries(
        Array.from({ length: 10 }, (_, index) => [
          series('kube_node_spec_taint', { node: `new-${index}`, ...TAINT }),
          `_x${3 * index} 1x3 stale`,
        ]),
      ),
      [series('kube_node_spec_taint', { node: 'no-agent', ...TAINT })]: ALWAYS(1),
    },
    firing: { 20: [], 23: [{ ...fires('NodeTainted', 1, 'a'), labels: {} }] },
  },
  simple(
    fires('LastValidConfigNotKept', 1, 'netstack-a'),
    'last_valid_config_kept',
    {},
    '1x9 0x1500',
    24,
    26,
  ),
  simple(fires('NetlinkInactive', 1, 'netstack-a'), 'netlink_active', {}, '1x9 0x1500', 24, 26),
  simple(
    fires('PodsMasqueraded', 1, 'netstack-a'),
    'masqueraded_pod_routes',
    { family: 'IPv6' },
    '0x9 3x1500',
    19,
    21,
  ),
  simple(
    fires('PodsMasqueraded', 1, 'netstack-a'),
    'config_problems',
    { severity: 'warning', kind: 'nothing-inside' },
    '0x9 1x1500',
    19,
    21,
  ),
  simple(
    fires('NodeAddressMissing', 1, 'netstack-a', { family: 'IPv4' }),
    'masquerade_address_ranges',
    { family: 'IPv4', found: 'none' },
    '0x9 1x1500',
    19,
    21,
  ),
  ...(
    [
      ['masqueraded', 'are masqueraded although the config says that they are not'],
      ['not_masqueraded', 'are not masqueraded although the config says that they are'],
      ['other_address', 'leave with another address than masqueradeAddresses asks for'],
    ] as const
  ).map(([verdict, said]) =>
    simple(
      fires('FlowsAgainstPolicy', 1, said, { family: 'IPv4', verdict }),
      'flows_against_policy',
      { family: 'IPv4', verdict, since: 'after' },
      '0x9 4x1500',
      24,
      26,
    ),
  ),
  {
    name: 'rules that somebody flushes every five minutes',
    series: {
      ...TWO,
      [ofAgent('a', 'drift_repairs_total', { family: 'IPv4', program: 'iptables' })]:
        '0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4 10x4 11x4 12x1500',
    },
    firing: { 15: [], 30: [fires('DriftRepeating', 1, 'netstack-a, after changes by iptables')], 100: [] },
  },
  simple(
    fires('PortsRunOut', 1, 'netstack-a (85%)', { family: 'IPv4' }),
    'port_usage_ratio',
    { family: 'IPv4' },
    '0.5x9 0.85x1500',
    14,
    16,
  ),
  {
    name: 'packets that conntrack refuses, some here, and many there',
    series: {
      ...TWO,
      [ofAgent('a', 'invalid_packets_total', { family: 'IPv4' })]: '0+30x1500',
      [ofAgent('b', 'invalid_packets_total', { family: 'IPv4' })]: '0+120x1500',
    },
    firing: { 35: [], 41: [fires('InvalidPackets', 1, 'netstack-a, netstack-b', { family: 'IPv4' })] },
  },
  {
    name: 'a config file that vanishes on all nodes, one of which gets a new pod, stays missed for a day',
    series: {
      ...TWO,
      [ofAgent('a', 'config_file_info', { file: 'ip-masq-y' })]: UNTIL(20),
      [ofAgent('b', 'config_file_info', { file: 'ip-masq-y' })]: UNTIL(20),
      [ofAgent('b', 'config_file_info', { file: 'ip-masq-x' })]: UNTIL(20),
    },
    firing: {
      20: [],
      26: [fires('ConfigFileMissing', 1, 'ip-masq-y ', { job: 'netstack' })],
      600: [fires('ConfigFileMissing', 1, 'ip-masq-y ', { job: 'netstack' })],
      1490: [],
    },
  },
  {
    name: 'agents without any config file',
    series: { ...TWO, [ofAgent('a', 'config_files')]: '2x9 0x1500' },
    firing: { 14: [], 16: [fires('ConfigFileMissing', 1, '', { job: 'netstack' })] },
  },
  simple(
    fires('ConfigConflicts', 1, '', { job: 'netstack', kind: 'link-local-flag' }),
    'config_problems',
    { severity: 'warning', kind: 'link-local-flag' },
    '0x9 1x1500',
    19,
    21,
  ),
  {
    name: 'a node that stays with another config until it follows, and a pool with a list of its own',
    series: {
      ...wanted(3),
      ...healthy('a'),
      ...healthy('b'),
      ...healthy('c'),
      ...healthy('p', 'pool-p'),
      [series('kube_daemonset_status_desired_number_scheduled', { ...OURS, daemonset: 'pool-p' })]: ALWAYS(1),
      [ofAgent('c', 'config_info', { hash: 'aaaa' })]: '_x60 1x1500',
      [ofAgent('c', 'config_info', { hash: 'bbbb' })]: '1x60 stale',
      [ofAgent('p', 'config_info', { hash: 'pppp' }, 'pool-p')]: ALWAYS(1),
      [ofAgent('p', 'config_info', { hash: 'aaaa' }, 'pool-p')]: '_x1500',
    },
    firing: {
      14: [],
      16: [fires('ConfigDiffers', 1, 'aaaa on 2 nodes; bbbb on 1 nodes;', { daemonset: 'netstack' })],
      80: [],
    },
  },
  {
    name: 'a change that spreads over a rollout window of half an hour, and a node that stays behind it',
    series: {
      ...wanted(3),
      ...healthy('a'),
      ...healthy('b'),
      ...healthy('c'),
      [ofAgent('a', 'config_info', { hash: 'aaaa' })]: UNTIL(10),
      [ofAgent('a', 'config_info', { hash: 'bbbb' })]: FROM(10),
      [ofAgent('b', 'config_info', { hash: 'aaaa' })]: UNTIL(40),
      [ofAgent('b', 'config_info', { hash: 'bbbb' })]: FROM(40),
      [ofAgent('b', 'pending_config_seconds', {})]: '_x9 1800-60x29 stale',
    },
    firing: {
      39: [],
      52: [],
      58: [fires('ConfigDiffers', 1, 'aaaa on 1 nodes; bbbb on 2 nodes;', { daemonset: 'netstack' })],
    },
  },
  {
    name: 'a change that reaches the nodes one after the other',
    series: {
      ...TWO,
      [ofAgent('a', 'config_info', { hash: 'aaaa' })]: UNTIL(10),
      [ofAgent('a', 'config_info', { hash: 'bbbb' })]: FROM(10),
      [ofAgent('b', 'config_info', { hash: 'aaaa' })]: UNTIL(20),
      [ofAgent('b', 'config_info', { hash: 'bbbb' })]: FROM(20),
    },
    firing: { 24: [], 40: [] },
  },
  {
    name: 'ip-masq-ranges that stops writing',
    series: {
      ...TWO,
      [series('ip_masq_ranges_writing_stopped', { ...OURS, reason: 'conflict' })]: ALWAYS(1),
      [series('ip_masq_ranges_writing_stopped', { ...OURS, reason: 'too-many' })]: ALWAYS(0),
    },
    firing: { 14: [], 16: [{ alert: 'IpMasqRangesStopped', labels: OURS, value: 1, names: '' }] },
  },
];

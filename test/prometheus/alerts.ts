import { exampleRules, type Rule } from './support.ts';

/** Series of Prometheus with the values of each minute, in the notation of promtool. */
export type Series = Readonly<Record<string, string>>;

/** What happens to a fleet, and which alerts fire in which minute: all of them, with all their labels but the severity. */
export interface AlertCase {
  readonly name: string;
  readonly series: Series;
  readonly firing: Readonly<Record<number, readonly Firing[]>>;
}

export interface Firing {
  readonly alert: string;
  readonly labels: Readonly<Record<string, string>>;
  /** What the summary counts. */
  readonly value: number;
  /** What the description lists. */
  readonly names: string;
}

const NAMESPACE = 'net-system';
const MINUTES = 1500;

/** A value at every minute. */
export const ALWAYS = (value: number) => `${value}x${MINUTES}`;
/** No series any more after some minutes. */
export const UNTIL = (minute: number, value = 1) => `${value}x${minute - 1} stale`;
/** A series that begins late. */
export const FROM = (minute: number, value = 1) => `_x${minute} ${value}x${MINUTES}`;

/** A metric of the agent on this node, scraped under the name of the release. */
export function ofAgent(
  node: string,
  metric: string,
  labels: Readonly<Record<string, string>> = {},
  job = 'netstack',
) {
  const target = { job, instance: `${node}:9614`, namespace: NAMESPACE, pod: `${job}-${node}`, node };
  return series(`ip_masq_agent_${metric}`, { ...target, ...labels });
}

export function series(name: string, labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return `${name}{${pairs.join(',')}}`;
}

/** What Prometheus knows of one healthy agent. */
export function healthy(node: string, job = 'netstack'): Series {
  return {
    ...ofPod(node, job),
    [ofAgent(node, 'build_info', {}, job)]: ALWAYS(1),
    [ofAgent(node, 'config_valid', {}, job)]: ALWAYS(1),
    [ofAgent(node, 'config_files', {}, job)]: ALWAYS(2),
    [ofAgent(node, 'config_file_info', { file: 'ip-masq-x' }, job)]: ALWAYS(1),
    [ofAgent(node, 'config_info', { hash: 'aaaa' }, job)]: ALWAYS(1),
    [ofAgent(node, 'rules_out_of_sync', {}, job)]: ALWAYS(0),
    [ofAgent(node, 'last_sync_success_timestamp_seconds', { family: 'IPv4' }, job)]: `0+60x${MINUTES}`,
  };
}

/** What kube-state-metrics knows of the agent's pod, beside those of other DaemonSets. */
export function ofPod(node: string, job = 'netstack'): Series {
  const pod = { namespace: NAMESPACE, pod: `${job}-${node}`, uid: '1' };
  const created = { node, created_by_kind: 'DaemonSet', created_by_name: job };
  const other = { ...pod, pod: `other-${node}` };
  return {
    [series('kube_node_info', { node })]: ALWAYS(1),
    [series('kube_pod_info', { ...pod, ...created })]: ALWAYS(1),
    [series('kube_pod_container_info', { ...pod, container: 'ip-masq-agent' })]: ALWAYS(1),
    [series('kube_pod_info', { ...other, ...created, created_by_name: 'other' })]: ALWAYS(1),
    [series('kube_pod_container_info', { ...other, container: 'other' })]: ALWAYS(1),
  };
}

/** On how many nodes the DaemonSet of the release wants an agent. */
export function wanted(nodes: number, daemonset = 'netstack'): Series {
  const of = (name: string) =>
    series('kube_daemonset_status_desired_number_scheduled', { namespace: NAMESPACE, daemonset: name });
  return { [of(daemonset)]: ALWAYS(nodes), [of('other')]: ALWAYS(9) };
}

/** An agent that kubelet restarts repeatedly, from a minute on: it is no longer scraped. */
export function crashing(node: string, code: number, from = 10): Series {
  const container = { namespace: NAMESPACE, pod: `netstack-${node}`, container: 'ip-masq-agent', uid: '1' };
  const scraped = Object.entries(healthy(node)).filter(([name]) => name.startsWith('ip_masq_agent_'));
  return {
    ...healthy(node),
    ...Object.fromEntries(
      scraped.map(([name, values]) => [name, values.replace(`x${MINUTES}`, `x${from - 1} stale`)]),
    ),
    [series('kube_pod_container_status_last_terminated_exitcode', container)]: FROM(from, code),
    [series('kube_pod_container_status_waiting_reason', { ...container, reason: 'CrashLoopBackOff' })]:
      FROM(from),
  };
}

/** The cases as unit tests of promtool. */
export function promtoolTests(rules: string, cases: readonly AlertCase[]): string {
  return JSON.stringify({
    rule_files: [rules],
    evaluation_interval: '1m',
    group_eval_order: ['record', 'node', 'traffic', 'config'].map((group) => `ip-masq-agent.${group}`),
    tests: cases.map(({ name, series: values, firing }) => ({
      name,
      interval: '1m',
      input_series: Object.entries(values).map(([one, text]) => ({ series: one, values: text })),
      promql_expr_test: Object.entries(firing).map(([minute, alerts]) => ({
        eval_time: `${minute}m`,
        expr: 'ALERTS{alertstate="firing"}',
        exp_samples: alerts.map(({ alert, labels }) => ({
          labels: series('ALERTS', {
            ...labels,
            alertstate: 'firing',
            alertname: alert,
            ...ruleOf(alert).labels,
          }),
          value: 1,
        })),
      })),
      alert_rule_test: Object.entries(firing).flatMap(([minute, alerts]) =>
        alerts.map((alert) => ({
          eval_time: `${minute}m`,
          alertname: alert.alert,
          exp_alerts: alerts
            .filter((one) => one.alert === alert.alert)
            .map((one) => ({
              exp_labels: { ...one.labels, ...ruleOf(one.alert).labels },
              exp_annotations: annotationsOf(one),
            })),
        })),
      ),
    })),
  });
}

function ruleOf(name: string): Rule {
  const rule = exampleRules().find(({ alert }) => alert === name);
  if (rule === undefined) throw new Error(`there is no alert ${name}`);
  return rule;
}

/** What the annotations of the rule become. */
function annotationsOf({ alert, labels, value, names }: Firing): Readonly<Record<string, string>> {
  const { annotations = {} } = ruleOf(alert);
  const filled = Object.entries(annotations).map(([name, text]) => [
    name,
    text
      .replace(/\{\{ (?:range|if) .*\{\{-? end -?\}\}/, names)
      .replaceAll('{{ $value }}', `${value}`)
      .replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => labels[label] ?? ''),
  ]);
  return Object.fromEntries(filled);
}

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load } from 'js-yaml';

/** What is given to people who run Prometheus. */
export function examplePath(name: string): string {
  return fileURLToPath(new URL(`../../examples/prometheus/${name}`, import.meta.url));
}

export function example(name: string): string {
  return readFileSync(examplePath(name), 'utf8');
}

export interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[];
}

/** All rules of the example, in order. */
export function exampleRules(): readonly Rule[] {
  const { groups } = load(example('rules.yaml')) as RuleFile;
  return groups.flatMap(({ rules }) => rules);
}

/** A rule file that stands in for kube-state-metrics: the pod that is scraped, of a DaemonSet for one node. */
export function stateRules(): string {
  const pod = { namespace: 'kube-system', pod: 'ip-masq-agent-0' };
  const rules = [
    {
      record: 'kube_pod_info',
      expr: 'vector(1)',
      labels: { ...pod, created_by_kind: 'DaemonSet', created_by_name: 'ip-masq-agent' },
    },
    {
      record: 'kube_pod_container_info',
      expr: 'vector(1)',
      labels: { ...pod, container: 'ip-masq-agent' },
    },
    {
      record: 'kube_daemonset_status_desired_number_scheduled',
      expr: 'vector(1)',
      labels: { namespace: 'kube-system', daemonset: 'ip-masq-agent' },
    },
  ];
  return JSON.stringify({ groups: [{ name: 'state', rules }] });
}

/** The rules of the example as they are, but with seconds for a patience of minutes. */
export function hurriedRules(): string {
  return example('rules.yaml')
    .replaceAll(/^( +for:) \d+m$/gm, '$1 3s')
    .replaceAll(/\[\d+m\]/g, '[20s]')
    .replace(/(_timestamp_seconds\)) > 600$/m, '$1 > 10');
}

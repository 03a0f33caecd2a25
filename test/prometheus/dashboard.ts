import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

interface Panel {
  readonly type: string;
  readonly title: string;
  /** What a collapsed row holds. */
  readonly panels?: readonly Panel[];
  readonly targets?: readonly { readonly expr: string }[];
}

interface Variable {
  readonly name: string;
  /** What stands for all values. */
  readonly allValue?: string;
  readonly current: { readonly value: string | readonly string[] };
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly Variable[] };
}

/** The example, as Grafana imports it. */
const dashboard: Dashboard = JSON.parse(
  readFileSync(new URL('../../examples/grafana/ip-masq-agent.json', import.meta.url), 'utf8'),
);

/** All that shows something. */
const panels = dashboard.panels.flatMap((panel) => (panel.type === 'row' ? (panel.panels ?? []) : [panel]));

/** All queries, each with the title of its panel. */
export const targets = panels.flatMap((panel) =>
  (panel.targets ?? []).map((target) => ({ ...target, panel: panel.title })),
);

/** The query as Grafana sends it, with all nodes and clusters chosen, and a minute shown. */
export function substituted(expr: string): string {
  const variables: ReadonlyMap<string, string | readonly string[]> = new Map([
    ['__rate_interval', '5s'],
    ['__range', '1m'],
    ...dashboard.templating.list.map(
      ({ name, allValue, current }) => [name, allValue ?? current.value] as const,
    ),
    ['cluster', '.*'],
  ]);
  return expr.replace(/\$(\w+)/g, (_, name: string) => {
    const value = variables.get(name);
    assert.ok(typeof value === 'string', `no such variable: ${name}`);
    return value;
  });
}

/** The metrics that an expression names: its words but for functions, operators, labels and texts. */
export function metricsOf(expr: string): readonly string[] {
  const bare = expr
    .replace(/\{[^}]*\}|\[[^\]]*\]|"[^"]*"/g, ' ')
    .replace(/\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)/g, ' ')
    .replace(/\$\w+/g, ' ');
  const words = [...bare.matchAll(/\b([a-z_]\w*)\b(?!\s*\()/gi)].map(([, word = '']) => word);
  const operators = new Set(['and', 'or', 'unless', 'bool', 'offset', ...AGGREGATIONS]);
  return words.filter((word) => !operators.has(word));
}

/** Their name may stand apart from what they aggregate. */
const AGGREGATIONS = ['sum', 'min', 'max', 'avg', 'count', 'quantile', 'topk', 'group'];

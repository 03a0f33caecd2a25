/** Writes the generated parts of the documentation and of the examples. Usage: node build/docs.ts */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { COMMANDS } from '../cmd/ip-masq-agent/commands.ts';
import { EXIT_MEANING } from '../cmd/ip-masq-agent/exit.ts';
import { type Flag, spellings } from '../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS } from '../cmd/ip-masq-agent/flags.ts';
import { OWN_FLAGS } from '../cmd/ip-masq-ranges/flags.ts';
import { ROUND_REASONS } from '../lib/agent/reasons.ts';
import { CIDR_KEYS, CIDR_LIMIT_KEY, KEY_NAMES, KEYS, type KeyKind } from '../lib/config/keys.ts';
import { CONFLICT_KINDS, KINDS, type ProblemKind } from '../lib/config/problem.ts';
import { FINDING_MEANING } from '../lib/doctor/finding.ts';
import { REASONS } from '../lib/ranges/decide.ts';
import { METRICS as RANGES_METRICS } from '../lib/ranges/metrics.ts';
import { METRIC_PREFIX, METRICS } from '../lib/status/metrics.ts';
import { Metrics } from '../lib/status/registry.ts';
import { type ClusterResult, readResults } from '../test/cluster/results.ts';
import { type KernelResult, readKernelResults } from '../test/kernels/results.ts';
import { exampleRules } from '../test/prometheus/support.ts';
import { chartValueRows } from './chart-readme.ts';
import { chartValuesSchema } from './chart-values.ts';
import { dashboard } from './dashboard.ts';
import { exampleManifest } from './install-manifest.ts';
import { schemaAddress } from './repository.ts';
import { configSchema, mergedSchema } from './schemas.ts';
import { terminalPicture } from './terminal.ts';

/** The pages that may have generated parts. */
const PAGES: readonly string[] = globSync(
  fileURLToPath(
    new URL('../{.github/design,docs/*,test/*/results,examples/helm/*/README}.md', import.meta.url),
  ),
);

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** The files that are generated, or have generated parts, by their path. */
export function generatedFiles(): Readonly<Record<string, string>> {
  const outputs = JSON.parse(read('schemas/ip-masq-outputs.schema.json'));
  outputs.$id = schemaAddress('ip-masq-outputs');
  outputs.$defs.merged = mergedSchema();
  const rule = prometheusRule();
  const grafana = formatted(dashboard());
  return {
    ...Object.fromEntries(
      PAGES.map((page) => [relative(ROOT, page), withGenerated(readFileSync(page, 'utf8'))]),
    ),
    'docs/terminal.svg': terminalPicture(read('docs/terminal.txt')),
    'schemas/ip-masq-config.schema.json': formatted(configSchema()),
    'schemas/ip-masq-outputs.schema.json': formatted(outputs),
    'examples/kubernetes/components/prometheus-rules/prometheusrule.yaml': rule,
    'examples/grafana/ip-masq-agent.json': grafana,
    ...copiesInChart({ 'prometheusrule.yaml': rule, 'ip-masq-agent.json': grafana }),
    'examples/helm/ip-masq-agent/values.schema.json': formatted(chartValuesSchema()),
    'examples/ip-masq-agent.yaml': exampleManifest(),
    'examples/kubernetes/admission/errors.yaml': withKeys(read('examples/kubernetes/admission/errors.yaml')),
  };
}

/** What the chart takes from other examples: a copy of its directory works, and Helm says nothing about links. */
function copiesInChart(files: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const readiness = ['policy.yaml', 'reporter.yaml', 'rule.yaml'].map((name) => `node-readiness/${name}`);
  const ranges = ['rbac.yaml', 'deployment.yaml'].map((name) => `ranges/${name}`);
  const all = {
    ...files,
    ...Object.fromEntries(
      [...readiness, ...ranges].map((path) => [path, read(`examples/kubernetes/components/${path}`)]),
    ),
  };
  return Object.fromEntries(
    Object.entries(all).map(([path, text]) => [`examples/helm/ip-masq-agent/files/${path}`, text]),
  );
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** The value as JSON, formatted as the other files are. */
function formatted(value: unknown): string {
  const command = ['format', '--stdin-file-path=schema.json'] as const;
  return execFileSync(join(ROOT, 'node_modules/.bin/biome'), command, {
    cwd: ROOT,
    input: JSON.stringify(value),
    encoding: 'utf8',
  });
}

/** The admission policy with the names of the keys in its variables. */
function withKeys(policy: string): string {
  const booleans = KEYS.filter(({ kind }) => kind === 'flag').map(({ name }) => name);
  const list = (names: readonly string[]) => `"[${names.map((name) => `'${name}'`).join(', ')}]"`;
  return policy
    .replace(/(- name: keys\n +expression: ).*/, (_, begin: string) => begin + list(KEY_NAMES))
    .replace(/(- name: networkLists\n +expression: ).*/, (_, begin: string) => begin + list(CIDR_KEYS))
    .replace(/(- name: booleans\n +expression: ).*/, (_, begin: string) => begin + list(booleans));
}

/** The rule file of Prometheus as an object of the Prometheus Operator, with the comments of the rules. */
function prometheusRule(): string {
  const rules = read('examples/prometheus/rules.yaml');
  const groups = rules.slice(rules.search(/^groups:$/m));
  return `# Generated from examples/prometheus/rules.yaml by build/docs.ts.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ip-masq-agent
  namespace: kube-system
  labels:
    app.kubernetes.io/name: ip-masq-agent
spec:
${groups.replaceAll(/^(?=.)/gm, '  ')}`;
}

const OWN_METRICS = Object.entries(METRICS).map(([name, { type, labels, help }]) => [
  `\`${METRIC_PREFIX}${name}\``,
  type,
  labels.map((label) => `\`${label}\``).join(', '),
  help,
]);

/** As a scrape has them. */
const PROCESS_METRICS = [
  ...(await new Metrics().text()).matchAll(/^# HELP (process_\w+) (.*)\n# TYPE \w+ (\w+)$/gm),
].map(([, name = '', help = '', type = '']) => [`\`${name}\``, type, '', help]);

/** The generated tables by name. */
function generatedTables(): Readonly<Record<string, string>> {
  return {
    commands: table(
      ['command', 'what it does'],
      Object.entries(COMMANDS).map(([name, { operands = '', summary }]) => [
        `\`${`${name} ${operands}`.trim()}\``,
        summary,
      ]),
    ),
    keys: table(
      ['key', 'value, default', 'meaning'],
      [
        ...KEYS.map(({ name, kind, description }) => [`\`${name}\``, VALUE_OF[kind], description]),
        [`\`${CIDR_LIMIT_KEY.name}\``, 'whole number, `--cidr-limit`', CIDR_LIMIT_KEY.description],
      ],
    ),
    'flags of commands': table(
      ['command', 'flag', 'value', 'default', 'meaning'],
      joinedByFlag(
        Object.entries(COMMANDS).flatMap(([name, { own }]) =>
          Object.entries(own).map((flag) => [name, ...flagCells(flag)]),
        ),
      ),
    ),
    flags: table(['flag', 'value', 'default', 'meaning'], Object.entries(FLAGS).map(flagCells)),
    'flags of ranges': table(
      ['flag', 'value', 'default', 'meaning'],
      Object.entries(OWN_FLAGS).map(flagCells),
    ),
    'metrics of ranges': table(
      ['metric', 'type', 'labels', 'meaning'],
      Object.entries(RANGES_METRICS).map(([name, [type, label, help]]) => {
        return [`\`ip_masq_ranges_${name}\``, type, label && `\`${label}\``, help];
      }),
    ),
    reasons: table(
      ['reason', 'why nothing is written'],
      Object.entries(REASONS).map(([reason, meaning]) => [`\`${reason}\``, meaning]),
    ),
    'reasons of rounds': table(
      ['reason', 'what has happened', 'reads the config files'],
      Object.entries(ROUND_REASONS).map(([reason, { readsConfig, meaning }]) => [
        `\`${reason}\``,
        meaning,
        readsConfig ? 'yes' : 'no',
      ]),
    ),
    'exit codes': table(['exit code', 'meaning'], Object.entries(EXIT_MEANING)),
    conflicts: kindTable(Object.entries(CONFLICT_KINDS)),
    problems: kindTable(Object.entries(KINDS).filter(([kind]) => !(kind in CONFLICT_KINDS))),
    findings: table(
      ['finding', 'meaning'],
      Object.entries(FINDING_MEANING).map(([kind, meaning]) => [`\`${kind}\``, meaning]),
    ),
    metrics: table(['metric', 'type', 'labels', 'meaning'], [...OWN_METRICS, ...PROCESS_METRICS]),
    alerts: alertTable(),
    values: table(['value', 'default', 'meaning'], chartValueRows()),
    clusters: table(
      ['cluster', 'Kubernetes', 'kernel', 'container runtime', 'passed'],
      readResults().map((result) => {
        const outcomes = Object.values(result.scenarios).flatMap((tests) => Object.values(tests));
        const passed = outcomes.filter((outcome) => outcome === 'passed').length;
        const versions = [result.kubernetes, result.kernel, result.runtime];
        return [titleOf(result), ...versions, `${passed} of ${outcomes.length} tests`];
      }),
    ),
    scenarios: scenarioTable(readResults()),
    kernels: table(
      ['name', 'kernel', "Debian's version", 'passed'],
      readKernelResults().map(({ name, title, version, checks }) => {
        const outcomes = Object.values(checks).filter((outcome) => outcome !== 'refused');
        const passed = outcomes.filter((outcome) => outcome === 'passed').length;
        return [name, title, version, `${passed} of ${outcomes.length} tests`];
      }),
    ),
    'kernel tests': kernelTable(readKernelResults()),
    refusals: table(
      ['name', 'dataplane', 'the agent ends with'],
      readKernelResults().flatMap(({ name, refusals }) =>
        Object.entries(refusals).map(([kind, message]) => [name, kind, message.replaceAll('|', '\\|')]),
      ),
    ),
  };
}

/** The critical ones first. */
function alertTable(): string {
  const rows = exampleRules().flatMap(({ alert, labels = {}, annotations = {} }) => {
    if (alert === undefined) return [];
    const { severity = '' } = labels;
    const { traffic_wrong: traffic = '', first_command: command = '' } = annotations;
    return [[`[${alert}](#${anchorOf(alert)})`, severity, traffic, `\`${command}\``]];
  });
  const { critical = [], warning = [] } = Object.groupBy(rows, ([, severity = '']) => severity);
  return table(['alert', 'severity', 'is traffic wrong now?', 'first command'], [...critical, ...warning]);
}

/** What people write as the value of a key, and its default, by the kind of the key. */
const VALUE_OF = {
  cidrs: 'list of CIDRs, `[]`',
  addresses: 'list of items with `destination` and `address`, both CIDRs, `[]`',
  flag: 'boolean, `false`',
  duration: 'Go duration such as `60s` or `1m30s`, from 100ms to 576h; `--resync-interval`',
} as const satisfies Readonly<Record<KeyKind, string>>;

function kindTable(kinds: readonly (readonly [kind: string, about: (typeof KINDS)[ProblemKind]])[]): string {
  return table(
    ['kind', 'meaning', 'severity'],
    kinds.map(([kind, { meaning, severity }]) => [`\`${kind}\``, meaning, severity]),
  );
}

/** A column for each cluster of the tests, and a row for each test. */
function scenarioTable(results: readonly ClusterResult[]): string {
  const tests = results.flatMap(({ scenarios }) =>
    Object.entries(scenarios).flatMap(([scenario, outcomes]) =>
      Object.keys(outcomes).map((title) => ({ scenario, title })),
    ),
  );
  const unique = [...Map.groupBy(tests, ({ scenario, title }) => `${scenario} ${title}`).entries()];
  const rows = unique
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([, group]) => group[0] ?? []);
  return table(
    ['scenario', 'test', ...results.map((one) => `${one.kubernetes}, ${titleOf(one)}`)],
    rows.map(({ scenario, title }) => [
      `${Number.parseInt(scenario, 10)}`,
      title,
      ...results.map(({ scenarios }) => scenarios[scenario]?.[title] ?? 'not run'),
    ]),
  );
}

/** A column for each virtual machine, and a row for each test. */
function kernelTable(results: readonly KernelResult[]): string {
  const titles = [...new Set(results.flatMap(({ checks }) => Object.keys(checks)))];
  return table(
    ['test', ...results.map(({ name }) => name)],
    titles.map((title) => [title, ...results.map(({ checks }) => checks[title] ?? 'not run')]),
  );
}

const FAMILIES_TEXT = { ipv4: 'IPv4', dual: 'IPv4 and IPv6', ipv6: 'IPv6' } as const;

function titleOf({ proxyMode, families }: ClusterResult): string {
  return `kube-proxy ${proxyMode}, ${FAMILIES_TEXT[families]}`;
}

function flagCells([name, flag]: [string, Flag<unknown>]): readonly string[] {
  const { kind, default: preset, help } = flag;
  const values =
    kind.placeholder || ['true', 'false', ...(kind.orElse === undefined ? [] : [kind.orElse])].join('|');
  const names = spellings(name, flag).map((word) => `\`${word}\``);
  return [names.join(', '), values.replaceAll('|', '\\|'), preset === '' ? '' : `\`${preset}\``, help];
}

/** One row for the commands that have the same flag. */
function joinedByFlag(rows: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const groups = Map.groupBy(rows, ([, ...cells]) => cells.join());
  return [...groups.values()].map((group) => [
    group.map(([command]) => command).join(', '),
    ...(group[0] ?? []).slice(1),
  ]);
}

/** A table in Markdown. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** The text of a page with each part between its markers replaced. */
function withGenerated(page: string): string {
  const tables = generatedTables();
  return page.replace(
    /(<!-- ([\w ]+): generated by build\/docs\.ts -->\n).*?(<!-- end of \2 -->)/gs,
    (_, begin: string, name: string, end: string) => {
      const content = tables[name];
      if (content === undefined) throw new Error(`there is no generated part "${name}"`);
      return `${begin}${content}\n${end}`;
    },
  );
}

/** The anchor that GitHub makes of a heading. */
export function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-');
}

/** Writes what is generated. */
export function writeGenerated(): void {
  for (const [path, text] of Object.entries(generatedFiles())) writeFileSync(join(ROOT, path), text);
}

if (import.meta.main) writeGenerated();

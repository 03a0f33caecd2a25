import { readdirSync, readFileSync } from 'node:fs';
import type { Flag } from '../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS } from '../cmd/ip-masq-agent/flags.ts';
import { exampleRules } from '../test/prometheus/support.ts';
import { configSchema } from './schemas.ts';

export interface Schema {
  readonly description?: string;
  readonly const?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** The text of values.yaml. */
export const VALUES = readFileSync(
  new URL('../examples/helm/ip-masq-agent/values.yaml', import.meta.url),
  'utf8',
);

const NUMBER = { type: 'integer', minimum: 0 } as const;
const TEXT = { type: 'string' } as const;
/** Placeholders of values that people write as numbers too. */
const NUMERIC = ['BYTES', 'DURATION'];

const CONFIG_FILE = {
  name: { ...TEXT, description: 'The name of the ConfigMap.' },
  key: { ...TEXT, description: 'The key in the ConfigMap.' },
  file: { ...TEXT, pattern: '^ip-masq-', description: 'The name of the config file.' },
  optional: { type: 'boolean', description: 'Whether pods start without the ConfigMap.' },
} as const;

const IMAGE = {
  repository: TEXT,
  tag: TEXT,
  digest: { ...TEXT, pattern: '^(sha256:[0-9a-f]{64})?$' },
  pullPolicy: { enum: ['Always', 'IfNotPresent', 'Never'] },
} as const;

/** Labels, annotations. */
const TEXTS = { type: 'object', additionalProperties: TEXT } as const;
/** What the API server checks. */
const ANY = { type: 'object' } as const;
const LIST = { type: 'array', items: ANY } as const;

const OBJECTS = {
  affinity: ANY,
  nameOverride: TEXT,
  fullnameOverride: TEXT,
  commonLabels: TEXTS,
  podLabels: TEXTS,
  podAnnotations: TEXTS,
  daemonsetAnnotations: TEXTS,
  serviceAccount: closed({ create: { type: 'boolean' }, name: TEXT, annotations: TEXTS }),
  priorityClassName: TEXT,
  updateStrategy: closed({ type: { enum: ['RollingUpdate', 'OnDelete'] }, rollingUpdate: ANY }),
  revisionHistoryLimit: { type: ['integer', 'null'], minimum: 0 },
  resources: closed({ requests: ANY, limits: ANY, claims: { ...LIST, description: 'dynamic resources' } }),
  livenessProbe: closed({ enabled: { type: 'boolean' } }),
  extraArgs: { type: 'array', items: TEXT },
  extraEnv: LIST,
  extraVolumes: LIST,
  extraVolumeMounts: LIST,
  extraObjects: LIST,
  podMonitor: closed({
    labels: TEXTS,
    interval: TEXT,
    scrapeTimeout: TEXT,
    relabelings: LIST,
    metricRelabelings: LIST,
  }),
  ranges: closed({ args: { type: 'array', items: TEXT } }),
  prometheusRule: closed({
    labels: TEXTS,
    interval: TEXT,
    runbookUrl: { ...TEXT, minLength: 1 },
    alerts: closed(
      Object.fromEntries(
        exampleRules().flatMap(({ alert }) =>
          alert === undefined ? [] : [[alert, closed({ enabled: { type: 'boolean' }, severity: TEXT })]],
        ),
      ),
    ),
  }),
} as const;

/** Those of the kustomizations, but for the canary, which is not part of a release. */
const DIRECTORIES = readdirSync(new URL('../examples/kubernetes/components', import.meta.url)).filter(
  (name) => name !== 'canary',
);
/** The names of those that add one object, which has values of its own. */
const OF_OBJECTS: Readonly<Record<string, string>> = {
  podmonitor: 'podMonitor',
  'prometheus-rules': 'prometheusRule',
};

const COMMENTS = commentsOf(VALUES);

/** The JSON Schema of the values of the Helm chart, of the draft that every Helm 3 knows. */
export function chartValuesSchema() {
  const { $schema, $id, $defs, title, description, examples, ...config } = configSchema();
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the chart ip-masq-agent',
    ...described(
      closed({
        // Other charts have other values there.
        global: { type: 'object', properties: { imageRegistry: TEXT } },
        image: closed(IMAGE),
        imagePullSecrets: { type: 'array', items: closed({ name: TEXT }) },
        flags: closed({
          ...Object.fromEntries(Object.entries(FLAGS).map(([name, flag]) => [name, flagSchema(flag)])),
          'require-source': renamedTo('flags.require-file'),
        }),
        config,
        configMap: closed({ create: { type: 'boolean' }, ...CONFIG_FILE }),
        dualStackCIDRs: { type: 'array', items: { $ref: '#/$defs/cidr' } },
        configFiles: { type: 'array', items: { ...closed(CONFIG_FILE), required: ['name', 'optional'] } },
        sources: renamedTo('configFiles'),
        sizing: { enum: [1_000, 5_000, 10_000, 50_000, 100_000] },
        nodeSelector: { type: 'object', additionalProperties: TEXT },
        tolerations: { type: 'array', items: { type: 'object' } },
        ...OBJECTS,
        components: closed({ ...components(), ...renamedComponents() }),
      }),
    ),
    $defs,
  };
}

/** The components by their names among the values. */
function components() {
  return Object.fromEntries(DIRECTORIES.map((name) => [valueName(name), { type: 'boolean' }]));
}

/** The names of directories, which the components had before. */
function renamedComponents() {
  const renamed = DIRECTORIES.filter((name) => name !== valueName(name));
  return Object.fromEntries(renamed.map((name) => [name, renamedTo(`components.${valueName(name)}`)]));
}

/** Refuses every value under an old name: the error of Helm says the new name. */
function renamedTo(name: string) {
  return { const: `renamed to ${name}` } as const;
}

function valueName(directory: string): string {
  return OF_OBJECTS[directory] ?? directory.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** A schema with the comments of values.yaml as descriptions of it and of what is in it. */
function described(schema: Schema, path = ''): Schema {
  // The descriptions of flags and of keys of a config file say more.
  if (/^(?:flags|config)\./.test(path)) return schema;
  const { properties, ...about } = schema;
  const comment = COMMENTS[path];
  return {
    ...about,
    ...(comment && { description: comment }),
    ...(properties && { properties: Object.fromEntries(Object.entries(properties).map(describedOne)) }),
  };

  function describedOne([name, inner]: [string, Schema]): [string, Schema] {
    return [name, described(inner, path === '' ? name : `${path}.${name}`)];
  }
}

/** The comments of values by the paths of the values, such as image.tag: behind a value, else in the lines above it. */
function commentsOf(text: string): Readonly<Record<string, string>> {
  const comments: Record<string, string> = {};
  let path: readonly string[] = [];
  let above: readonly string[] = [];
  for (const line of text.split('\n')) {
    const comment = /^ *# (.*)$/.exec(line)?.[1];
    const [, indent = '', key, behind] = /^( *)([\w-]+):.*?(?: # (.*))?$/.exec(line) ?? [];
    if (key !== undefined) {
      path = [...path.slice(0, indent.length / 2), key];
      comments[path.join('.')] = behind ?? above.join(' ');
    }
    above = comment === undefined ? [] : [...above, comment];
  }
  return comments;
}

/** An object with these properties and no others. */
function closed(properties: Readonly<Record<string, object>>) {
  return { type: 'object', additionalProperties: false, properties };
}

function flagSchema({ kind, help }: Flag<unknown>): object {
  const { placeholder, choices, repeats, orElse } = kind;
  const texts = choices === undefined ? TEXT : { enum: choices };
  return { description: help, ...valueSchema() };

  function valueSchema(): object {
    if (placeholder === '')
      return orElse === undefined ? { type: 'boolean' } : { type: ['boolean', 'string'] };
    if (placeholder === 'N') return NUMBER;
    if (NUMERIC.includes(placeholder)) return { type: ['integer', 'string'] };
    return repeats ? { anyOf: [texts, { type: 'array', items: texts }] } : texts;
  }
}

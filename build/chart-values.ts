import { readdirSync } from 'node:fs';
import type { Flag } from '../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS } from '../cmd/ip-masq-agent/flags.ts';
import { configSchema } from './schemas.ts';

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
  serviceAccount: closed({ create: { type: 'boolean' }, name: TEXT, annotations: TEXTS }),
  priorityClassName: TEXT,
  updateStrategy: closed({ type: { enum: ['RollingUpdate', 'OnDelete'] }, rollingUpdate: ANY }),
  revisionHistoryLimit: { type: ['integer', 'null'], minimum: 0 },
  resources: closed({ requests: ANY, limits: ANY, claims: LIST }),
  extraArgs: { type: 'array', items: TEXT },
  extraEnv: LIST,
  extraVolumes: LIST,
  extraVolumeMounts: LIST,
  podMonitor: closed({ labels: TEXTS, interval: TEXT }),
  prometheusRule: closed({ labels: TEXTS }),
} as const;

/** Those of the kustomizations, but for the canary, which is not part of a release. */
const COMPONENTS = readdirSync(new URL('../examples/kubernetes/components', import.meta.url)).filter(
  (name) => name !== 'canary',
);

/** The JSON Schema of the values of the Helm chart, of the draft that every Helm 3 knows. */
export function chartValuesSchema() {
  const { $schema, $id, $defs, title, examples, ...config } = configSchema();
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the chart ip-masq-agent',
    ...closed({
      // Helm adds it for a chart that another one depends on.
      global: { type: 'object' },
      image: closed(IMAGE),
      imagePullSecrets: { type: 'array', items: closed({ name: TEXT }) },
      flags: closed(
        Object.fromEntries(Object.entries(FLAGS).map(([name, flag]) => [name, flagSchema(flag)])),
      ),
      config,
      configMap: closed(CONFIG_FILE),
      configFiles: { type: 'array', items: { ...closed(CONFIG_FILE), required: ['name', 'optional'] } },
      sizing: { enum: [1_000, 5_000, 10_000, 50_000, 100_000] },
      nodeSelector: { type: 'object', additionalProperties: TEXT },
      tolerations: { type: 'array', items: { type: 'object' } },
      ...OBJECTS,
      components: closed(Object.fromEntries(COMPONENTS.map((name) => [name, { type: 'boolean' }]))),
    }),
    $defs,
  };
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

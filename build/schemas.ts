import { CIDR_LIMIT_KEY, KEYS } from '../lib/config/keys.ts';
import { ITEM_SCHEMAS } from '../lib/config/list-key.ts';
import { schemaAddress } from './repository.ts';

/** The JSON Schema of a config file. */
export function configSchema() {
  const { name: limit, remedy, schema, ...about } = CIDR_LIMIT_KEY;
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: schemaAddress('ip-masq-config'),
    title: 'ip-masq-agent config',
    description:
      "One config file: a key `ip-masq-*` of a ConfigMap, mounted in the agent's config directory. Keys are matched case-insensitively.",
    type: 'object',
    additionalProperties: false,
    properties: {
      ...Object.fromEntries(
        KEYS.map(({ name, title, description, schema, examples }) => [
          name,
          { title, description, ...schema, ...(examples && { examples }) },
        ]),
      ),
      [limit]: { ...about, ...schema },
    },
    $defs: ITEM_SCHEMAS,
    examples: [
      {
        nonMasqueradeCIDRs: ['10.0.0.0/8', '192.168.0.0/16'],
        masqueradeCIDRs: ['10.20.0.0/16'],
        masqLinkLocal: false,
        resyncInterval: '60s',
      },
    ],
  };
}

/** The JSON Schema of a merged config in JSON outputs. */
export function mergedSchema() {
  const properties = {
    configFiles: {
      description: 'The names of the config files; none if the defaults apply.',
      type: 'array',
      items: { type: 'string' },
    },
    ...Object.assign({}, ...KEYS.map(({ jsonSchema }) => jsonSchema)),
  };
  return { type: 'object', required: Object.keys(properties), properties };
}

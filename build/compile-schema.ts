/** Compiles the JSON Schema of a config file, which editors use, into a validator: the agent starts without Ajv. */
import { readFileSync, writeFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';

const schema = JSON.parse(
  readFileSync(new URL('../schemas/ip-masq-config.schema.json', import.meta.url), 'utf8'),
);
const ajv = new Ajv2020({ allErrors: true, strict: true, code: { source: true, esm: true, optimize: true } });
const code = standalone.default(ajv, ajv.compile(schema));
writeFileSync(
  new URL('../lib/config/schema.generated.js', import.meta.url),
  `// Generated from schemas/ip-masq-config.schema.json by build/compile-schema.ts.\n${code}\n`,
);

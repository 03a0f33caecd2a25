/** Compiles the JSON Schema of a config file into a validator, so that the agent starts without Ajv. */
import { writeFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import { configSchema } from './schemas.ts';

const ajv = new Ajv2020({ allErrors: true, strict: true, code: { source: true, esm: true, optimize: true } });
const code = standalone.default(ajv, ajv.compile(configSchema()));
writeFileSync(
  new URL('../lib/config/schema.generated.js', import.meta.url),
  `// Generated from lib/config/keys.ts by build/compile-schema.ts.\n${code}\n`,
);

/** Compiles the JSON Schema of a source into a validator, so that the agent starts without Ajv. */
import { readFileSync, writeFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';

const root = new URL('..', import.meta.url);
const schema = JSON.parse(readFileSync(new URL('schemas/ip-masq-config.schema.json', root), 'utf8'));
const ajv = new Ajv2020({ allErrors: true, strict: true, code: { source: true, esm: true, optimize: true } });
const code = standalone.default(ajv, ajv.compile(schema));
const keys = JSON.stringify(Object.keys(schema.properties));
const itemKeys = JSON.stringify(Object.keys(schema.$defs.masqueradeAddress.properties));
writeFileSync(
  new URL('lib/config/schema.generated.js', root),
  `// Generated from schemas/ip-masq-config.schema.json by build/compile-schema.ts.\n${code}\nexport const keys = ${keys};\nexport const itemKeys = ${itemKeys};\n`,
);

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import formats from 'ajv-formats';

const LIBRARY = dirname(fileURLToPath(import.meta.resolve('@cyclonedx/cyclonedx-library/package.json')));

/** What is wrong with a bill of materials by the JSON Schema of CycloneDX 1.6; empty where it is valid. */
export function cycloneDxErrors(bom: unknown): readonly string[] {
  const ajv = new Ajv({ strict: false, allErrors: true });
  formats.default(ajv);
  // Those of internationalised addresses, which are in no package that is here.
  for (const format of ['iri-reference', 'idn-email']) ajv.addFormat(format, true);
  // It names them by their files, next to itself.
  for (const name of ['spdx', 'jsf-0.82'])
    ajv.addSchema(schema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`);
  const validate = ajv.compile(schema('bom-1.6'));
  validate(bom);
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

function schema(name: string) {
  return JSON.parse(readFileSync(join(LIBRARY, 'res/schema', `${name}.SNAPSHOT.schema.json`), 'utf8'));
}

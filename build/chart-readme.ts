import { load } from 'js-yaml';
import { chartValuesSchema, type Schema, VALUES } from './chart-values.ts';

/** A longer default value is not shown. */
const LONGEST = 80;

/** The values of the Helm chart for a table: name, default, meaning. */
export function chartValueRows(): readonly (readonly string[])[] {
  return rowsOf(chartValuesSchema(), load(VALUES));
}

function rowsOf({ properties = {} }: Schema, defaults: unknown, prefix = ''): readonly (readonly string[])[] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const preset = (defaults as Readonly<Record<string, unknown>> | undefined)?.[name];
    const { description, properties } = schema;
    const row = [`\`${prefix}${name}\``, properties ? '' : shown(preset), description ?? ''];
    return [...(description === undefined ? [] : [row]), ...rowsOf(schema, preset, `${prefix}${name}.`)];
  });
}

function shown(preset: unknown): string {
  if (preset === undefined) return '';
  const text = JSON.stringify(preset);
  return text.length > LONGEST ? 'in values.yaml' : `\`${text}\``;
}

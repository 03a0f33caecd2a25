import { quote } from '../text/escape.ts';
import type { SchemaError } from './schema.generated.js';
import type { Node } from './yaml.ts';

const EXPECTED: Readonly<Record<string, string>> = {
  array: 'must be a list of CIDRs',
  boolean: 'must be true or false',
  integer: 'must be a whole number',
  string: 'must be text',
};

/** What the schema wants of a value: the end of a sentence that begins with its key. */
export function expectation(error: SchemaError): string {
  if (error.keyword === 'type')
    return EXPECTED[String(error.params['type'])] ?? `must be ${error.params['type']}`;
  if (error.keyword === 'minimum') return `must be ${error.params['limit']} or more`;
  return error.message ?? 'is not as the schema says';
}

/**
 * What to write instead of a value of the wrong shape.
 *
 * @param index which item of the list is wrong; undefined for the value of the key itself
 */
export function shapeRemedy(key: string, index: string | undefined, node: Node): string {
  const empty = node.kind === 'scalar' && node.value === null;
  const wholeList = index === undefined;
  switch (key) {
    case 'nonMasqueradeCIDRs':
    case 'masqueradeCIDRs':
      if (empty && wholeList) return 'write [] for an empty list, or remove the key';
      if (empty) return 'remove it, or write a CIDR such as 10.0.0.0/8 behind a dash';
      return 'write each CIDR on its own line behind a dash, such as "- 10.0.0.0/8"';
    case 'masqLinkLocal':
    case 'masqLinkLocalIPv6':
      return 'write true or false, without quotes';
    case 'resyncInterval':
      return 'write a Go duration such as "60s"';
    default:
      return 'write a whole number such as 64, without quotes';
  }
}

/** What a value is, for a sentence. */
export function describe(node: Node): string {
  if (node.kind !== 'scalar') return `a ${node.kind}`;
  if (node.value === null) return 'empty';
  if (typeof node.value === 'string') return `the text ${quote(node.value)}`;
  return `the ${typeof node.value} ${node.value}`;
}

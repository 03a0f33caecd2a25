import { type SchemaError, validate } from './schema.generated.js';
import { describe, type Node } from './yaml.ts';

/** A value that is not of the shape that its key demands, and what to write instead. */
export interface Misshape {
  readonly node: Node;
  readonly message: string;
  readonly remedy: string;
}

/**
 * What the schema finds wrong with the values, without what the callers find with a reason of their own: texts that are
 * not CIDRs or durations.
 *
 * @param values by key as the schema spells it, of known keys only
 */
export function misshapes(values: ReadonlyMap<string, Node>): readonly Misshape[] {
  const value = Object.fromEntries([...values].map(([key, node]) => [key, plainValue(node)]));
  if (validate(value)) return [];
  return (validate.errors ?? [])
    .filter(({ keyword }) => keyword !== 'pattern')
    .map((error) => misshape(error, values));
}

function plainValue(node: Node): unknown {
  switch (node.kind) {
    case 'scalar':
      return node.value;
    case 'list':
      // The schema looks at one level only; anything deeper is wrong in any case.
      return node.items.map((item) => (item.kind === 'scalar' ? item.value : item.kind === 'list' ? [] : {}));
    case 'map':
      return {};
  }
}

function misshape(error: SchemaError, values: ReadonlyMap<string, Node>): Misshape {
  const [, key = '', index] = error.instancePath.split('/');
  const value = values.get(key);
  const node = index !== undefined && value?.kind === 'list' ? value.items[Number(index)] : value;
  if (node === undefined) throw new Error(`no value at ${error.instancePath}`);
  const what = index === undefined ? key : `item ${Number(index) + 1} of ${key}`;
  const message = `${what} ${expectation(error)}, but is ${describe(node)}`;
  return { node, message, remedy: remedy(key, index !== undefined, node) };
}

const EXPECTED: Readonly<Record<string, string>> = {
  array: 'must be a list of CIDRs',
  boolean: 'must be true or false',
  integer: 'must be a whole number',
  string: 'must be text',
};

/** What the schema wants of a value: a sentence that goes on behind its key. */
function expectation({ keyword, params, message }: SchemaError): string {
  if (keyword === 'type') return EXPECTED[String(params['type'])] ?? `must be ${params['type']}`;
  if (keyword === 'minimum') return `must be ${params['limit']} or more`;
  return message ?? 'is not as the schema says';
}

function remedy(key: string, isItem: boolean, node: Node): string {
  const isEmpty = node.kind === 'scalar' && node.value === null;
  switch (key) {
    case 'nonMasqueradeCIDRs':
    case 'masqueradeCIDRs':
    case 'masqueradeFromCIDRs':
      if (isEmpty && isItem) return 'remove it, or write a CIDR such as 10.0.0.0/8 behind a dash';
      if (isEmpty) return 'write [] for an empty list, or remove the key';
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

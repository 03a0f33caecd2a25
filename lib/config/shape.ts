import type { Advice } from '../text/advice.ts';
import { itemKeys, type SchemaError, validate } from './schema.generated.js';
import { describe, keyName, type Node, valueAt } from './yaml.ts';

/** A value that is not of the shape that its key demands, and what to write instead. */
interface Misshape extends Advice {
  readonly node: Node;
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
  return node.kind === 'list' ? node.items.map(plainItem) : innermost(node);
}

/** An item has no more keys than the schema knows: a map with more is in a list that must not hold maps. */
function plainItem(node: Node): unknown {
  if (node.kind !== 'map') return innermost(node);
  const pairs = node.pairs.slice(0, itemKeys.length);
  return Object.fromEntries(pairs.map(({ key, value }) => [keyName(key), innermost(value)]));
}

/** A value in which the schema looks no deeper: what is there is wrong in any case. */
function innermost(node: Node): unknown {
  return node.kind === 'scalar' ? node.value : node.kind === 'list' ? [] : {};
}

function misshape(error: SchemaError, values: ReadonlyMap<string, Node>): Misshape {
  const [, key = '', index, itemKey] = error.instancePath.split('/');
  const value = values.get(key);
  const item = index !== undefined && value?.kind === 'list' ? value.items[Number(index)] : value;
  const node = itemKey === undefined ? item : valueAt(item, itemKey);
  if (node === undefined) throw new Error(`no value at ${error.instancePath}`);
  const ofKey = index === undefined ? key : `item ${Number(index) + 1} of ${key}`;
  const what = itemKey === undefined ? ofKey : `${itemKey} of ${ofKey}`;
  const is = error.keyword === 'required' ? '' : `, but is ${describe(node)}`;
  const message = `${what} ${expectation(error)}${is}`;
  return { node, message, remedy: remedy(key, index !== undefined, node) };
}

const EXPECTED: Readonly<Record<string, string>> = {
  array: 'must be a list',
  boolean: 'must be true or false',
  object: 'must have a destination and an address',
  integer: 'must be a whole number',
  string: 'must be text',
};

/** What the schema wants of a value: a sentence that goes on behind its key. */
function expectation({ keyword, params, message }: SchemaError): string {
  if (keyword === 'type') return EXPECTED[String(params['type'])] ?? `must be ${params['type']}`;
  if (keyword === 'required') return `has no ${params['missingProperty']}`;
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
    case 'masqueradeAddresses':
      if (isEmpty && !isItem) return 'write [] for an empty list, or remove the key';
      return 'write each item as "- {destination: 0.0.0.0/0, address: 198.51.100.0/24}"';
    case 'masqLinkLocal':
    case 'masqLinkLocalIPv6':
      return 'write true or false, without quotes';
    case 'resyncInterval':
      return 'write a Go duration such as "60s"';
    default:
      return 'write a whole number such as 64, without quotes';
  }
}

import type { Advice } from '../text/advice.ts';
import { CIDR_LIMIT_KEY, keyNamed } from './keys.ts';
import { type SchemaError, validate } from './schema.generated.js';
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
  const value = Object.fromEntries(
    Array.from(values, ([key, node]) => [key, plainValue(node, keyNamed(key)?.itemKeys ?? [])]),
  );
  if (validate(value)) return [];
  return (validate.errors ?? [])
    .filter(({ keyword }) => keyword !== 'pattern')
    .map((error) => misshape(error, values));
}

function plainValue(node: Node, itemKeys: readonly string[]): unknown {
  return node.kind === 'list' ? node.items.map((item) => plainItem(item, itemKeys)) : innermost(node);
}

function plainItem(node: Node, itemKeys: readonly string[]): unknown {
  if (node.kind !== 'map' || itemKeys.length === 0) return innermost(node);
  return Object.fromEntries(node.pairs.map(({ key, value }) => [keyName(key), innermost(value)]));
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
  const isEmpty = node.kind === 'scalar' && node.value === null;
  const isListInText =
    error.params['type'] === 'array' && node.kind === 'scalar' && /^\s*- /.test(String(node.value));
  if (isListInText)
    return { node, message, remedy: `remove the "|" or the quotes behind ${key}: with them a list is text` };
  const remedy = keyNamed(key)?.remedy(index !== undefined, isEmpty) ?? CIDR_LIMIT_KEY.remedy;
  return { node, message, remedy };
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

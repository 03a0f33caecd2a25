import { parsePrefix } from '../cidr/prefix.ts';
import type { Advice } from '../text/advice.ts';
import { quote } from '../text/escape.ts';
import { CIDR_LIMIT_KEY, KEY_NAMES, keyNamed } from './keys.ts';
import { CIDR_PATTERN, cidrAdvice } from './list-key.ts';
import type { ProblemKind } from './problem.ts';
import { durationAdvice } from './scalar-key.ts';
import { type SchemaError, validate } from './schema.generated.js';
import { describe, keyName, type Node, pairAt, valueAt } from './yaml.ts';

/** Something that the schema refuses, and what to write instead. */
interface Misshape {
  readonly kind: ProblemKind;
  readonly node: Node;
  readonly message: string;
  readonly remedy: string;
}

/**
 * What the schema finds wrong with a config, whose keys are spelt as the schema does.
 *
 * @param values those of the config, by key
 */
export function misshapes(config: Node, values: ReadonlyMap<string, Node> = new Map()): readonly Misshape[] {
  const plain = Object.fromEntries(Array.from(values, ([key, value]) => [key, plainValue(value, key)]));
  if (validate(config.kind === 'map' ? plain : innermost(config))) return [];
  return (validate.errors ?? []).map((error) => {
    const place = placeOf(error, config, values);
    return { kind: 'shape', node: place.node, ...FINDINGS[error.keyword](error.params, place) };
  });
}

function plainValue(node: Node, key: string): unknown {
  if (node.kind !== 'list') return innermost(node);
  const itemKeys = keyNamed(key)?.itemKeys ?? [];
  return node.items.map((item) => (itemKeys.length === 0 ? innermost(item) : plainItem(item)));
}

function plainItem(node: Node): unknown {
  if (node.kind !== 'map') return innermost(node);
  return Object.fromEntries(node.pairs.map(({ key, value }) => [keyName(key), innermost(value)]));
}

/** A value in which the schema looks no deeper: what is there is wrong in any case. */
function innermost(node: Node): unknown {
  return node.kind === 'scalar' ? node.value : node.kind === 'list' ? [] : {};
}

/** Where the schema found something. */
interface Place {
  readonly node: Node;
  /** The key of the config; empty for the config itself. */
  readonly key: string;
  readonly isItem: boolean;
  /** How a sentence calls it. */
  readonly what: string;
}

function placeOf({ instancePath }: SchemaError, config: Node, values: ReadonlyMap<string, Node>): Place {
  const [, key = '', index, itemKey] = instancePath.split('/');
  const value = key === '' ? config : values.get(key);
  const item = index !== undefined && value?.kind === 'list' ? value.items[Number(index)] : value;
  const node = itemKey === undefined ? item : valueAt(item, itemKey);
  if (node === undefined) throw new Error(`no value at ${instancePath}`);
  const ofKey = index === undefined ? key : `item ${Number(index) + 1} of ${key}`;
  const what = itemKey === undefined ? ofKey : `${itemKey} of ${ofKey}`;
  return { node, key, isItem: index !== undefined, what };
}

type Finding = Pick<Misshape, 'message' | 'remedy'> & Partial<Misshape>;

/** What users read of what Ajv finds, by the keyword of the schema. */
const FINDINGS: Readonly<
  Record<SchemaError['keyword'], (params: SchemaError['params'], place: Place) => Finding>
> = {
  type: ({ type = '' }, place) => {
    const { node, key, what } = place;
    if (key === '') return noConfig(node);
    const message = `${what} ${TYPES[type] ?? `must be of type ${type}`}, but is ${describe(node)}`;
    return { message, remedy: remedyAt(place) };
  },
  required: ({ missingProperty }, place) => ({
    message: `${place.what} has no ${missingProperty}`,
    remedy: remedyAt(place),
  }),
  additionalProperties: ({ additionalProperty: name = '' }, { node, key }) => ({
    kind: 'unknown-key',
    node: pairAt(node, name)?.key ?? node,
    message: `unknown key ${quote(name)}`,
    remedy: unknownKeyRemedy(name, key === '' ? KEY_NAMES : (keyNamed(key)?.itemKeys ?? [])),
  }),
  minimum: ({ limit }, place) => ({
    message: `${place.what} must be ${limit} or more, but is ${describe(place.node)}`,
    remedy: remedyAt(place),
  }),
  pattern: ({ pattern }, { node, what }) => {
    const text = node.kind === 'scalar' ? String(node.value) : '';
    const parsed = parsePrefix(text);
    if (pattern === CIDR_PATTERN && 'error' in parsed)
      return { kind: 'cidr', ...cidrAdvice(text, parsed.error) };
    return { kind: 'duration', ...durationAdvice(what, text) };
  },
};

const TYPES: Readonly<Record<string, string>> = {
  array: 'must be a list',
  boolean: 'must be true or false',
  object: 'must have a destination and an address',
  integer: 'must be a whole number',
  string: 'must be text',
};

function noConfig(node: Node): Advice {
  const remedy = 'write keys such as "nonMasqueradeCIDRs:", without quotes around all of it';
  return { message: `a config must be a map of keys, but this is ${describe(node)}`, remedy };
}

function remedyAt({ node, key, isItem }: Place): string {
  // NetworkPolicies have exceptions beside the network that they are in.
  if (isItem && node.kind === 'map' && key === 'nonMasqueradeCIDRs')
    return 'write only the CIDR here, and exceptions inside it as masqueradeCIDRs';
  const isEmpty = node.kind === 'scalar' && node.value === null;
  return keyNamed(key)?.remedy(isItem, isEmpty) ?? CIDR_LIMIT_KEY.remedy;
}

function unknownKeyRemedy(name: string, known: readonly string[]): string {
  if (/^exc(?:ept|lu)/i.test(name)) return 'write exceptions inside nonMasqueradeCIDRs as masqueradeCIDRs';
  return `write one of ${known.join(', ')}`;
}

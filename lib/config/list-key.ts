import { FAMILY_NAMES } from '../cidr/address.ts';
import { covers, type Prefix, parsePrefix } from '../cidr/prefix.ts';
import { UNUSABLE_AS_SOURCE } from '../cidr/reserved.ts';
import type { Advice } from '../text/advice.ts';
import { printable, quote } from '../text/escape.ts';
import { type Located, originValue } from '../text/origin.ts';
import { originComment } from './config-file-lines.ts';
import type { Key, KeyTraits, ParseContext, Schema } from './key.ts';
import { type Node, valueAt } from './yaml.ts';

/** Masqueraded packets to a destination leave with the node's address in a range. Both have the same family. */
export interface MasqueradeAddress {
  readonly destination: Prefix;
  readonly range: Prefix;
}

interface ItemKind<Kind extends string, Item> {
  readonly kind: Kind;
  /** Its name in the `$defs` of the schema. */
  readonly definition: string;
  readonly schema: Schema;
  /** The schema of a list of them in JSON outputs. */
  readonly jsonSchema: Schema;
  /** The keys of an item that is a map; none if it is text. */
  readonly itemKeys: readonly string[];
  /** What to write instead of a list or an item of the wrong shape, and of an empty item. */
  readonly remedy: string;
  readonly emptyRemedy: string;
  /** Undefined if something is wrong with it, which is reported. */
  parse(node: Node, context: ParseContext): Item | undefined;
  /** The text that no two items of a merged list share. */
  identity(item: Item): string;
  /** It as a config file says it: a text, or texts by `itemKeys`. */
  plain(item: Item): string | Readonly<Record<string, string>>;
  /** Its properties in JSON outputs. */
  json(item: Item): Readonly<Record<string, string>>;
}

/** What the schema says of a CIDR; `parsePrefix` says the rest. */
export const CIDR_PATTERN = '^[0-9A-Fa-f:.]+/(0|[1-9][0-9]{0,2})$';

const CIDR: ItemKind<'cidrs', Prefix> = {
  kind: 'cidrs',
  definition: 'cidr',
  schema: {
    title: 'Network in CIDR notation',
    description: 'A canonical network address and its prefix length. No bits are set after the prefix.',
    type: 'string',
    pattern: CIDR_PATTERN,
    examples: ['10.0.0.0/8', 'fd00::/8'],
  },
  jsonSchema: { $ref: '#/$defs/cidrs' },
  itemKeys: [],
  remedy: 'write each CIDR on its own line behind a dash, such as "- 10.0.0.0/8"',
  emptyRemedy: 'remove it, or write a CIDR such as 10.0.0.0/8 behind a dash',
  parse: parsePrefixNode,
  identity: ({ text }) => text,
  plain: ({ text }) => text,
  json: ({ text }) => ({ cidr: text }),
};

const ADDRESS_REMEDY = 'write each item as "- {destination: 0.0.0.0/0, address: 198.51.100.0/24}"';

const ADDRESS: ItemKind<'addresses', MasqueradeAddress> = {
  kind: 'addresses',
  definition: 'masqueradeAddress',
  schema: {
    type: 'object',
    additionalProperties: false,
    required: ['destination', 'address'],
    properties: {
      destination: {
        title: 'Destination',
        description: 'Masqueraded traffic to this network leaves with the address.',
        $ref: '#/$defs/cidr',
      },
      address: {
        title: 'Range of the address',
        description:
          'A network that holds one address of each node, so that all nodes can have the same config.',
        $ref: '#/$defs/cidr',
      },
    },
  },
  jsonSchema: {
    type: 'array',
    items: {
      type: 'object',
      required: ['destination', 'address', 'origin'],
      properties: {
        destination: { type: 'string' },
        address: { description: "The range of the node's address.", type: 'string' },
        origin: { $ref: '#/$defs/location' },
      },
    },
  },
  itemKeys: ['destination', 'address'],
  remedy: ADDRESS_REMEDY,
  emptyRemedy: ADDRESS_REMEDY,
  parse: parseAddressNode,
  identity: ({ destination }) => destination.text,
  plain: addressTexts,
  json: addressTexts,
};

/** The `$defs` of the schema. */
export const ITEM_SCHEMAS: Readonly<Record<string, Schema>> = {
  [ADDRESS.definition]: ADDRESS.schema,
  [CIDR.definition]: CIDR.schema,
};

/** A list of networks; those of all config files are joined, each once. */
export const cidrListKey = <const Name extends string>(name: Name, traits: KeyTraits) =>
  listKey(name, CIDR, traits);

/** A list of destinations with the address that packets leave with; of all config files, each destination once. */
export const addressListKey = <const Name extends string>(name: Name, traits: KeyTraits) =>
  listKey(name, ADDRESS, traits);

type Items<Item> = readonly Located<Item>[];

function listKey<Name extends string, Kind extends string, Item>(
  name: Name,
  item: ItemKind<Kind, Item>,
  traits: KeyTraits,
): Key<Name, Kind, Items<Item>, Items<Item>> {
  return {
    ...traits,
    name,
    kind: item.kind,
    schema: { type: 'array', items: { $ref: `#/$defs/${item.definition}` } },
    itemKeys: item.itemKeys,
    jsonSchema: { [name]: item.jsonSchema },
    remedy(isItem, isEmpty) {
      if (!isEmpty) return item.remedy;
      return isItem ? item.emptyRemedy : 'write [] for an empty list, or remove the key';
    },
    parse(node, context) {
      if (node?.kind !== 'list') return [];
      return node.items.flatMap((one) => {
        const value = item.parse(one, context);
        return value === undefined ? [] : [context.located(value, one)];
      });
    },
    merge(configs) {
      const firsts = new Map<string, Located<Item>>();
      for (const one of configs.flatMap((config) => config[name])) {
        const identity = item.identity(one.value);
        if (!firsts.has(identity)) firsts.set(identity, one);
      }
      return [...firsts.values()];
    },
    setAt: ({ [name]: [first] }) => first?.origin,
    json: ({ [name]: items }) => ({
      [name]: items.map(({ value, origin }) => ({ ...item.json(value), origin: originValue(origin) })),
    }),
    lines: ({ [name]: items }) =>
      // Without the key, some readers would take their defaults.
      items.length === 0 ? [`${name}: []`] : [`${name}:`, ...items.flatMap((one) => itemLines(item, one))],
    logValue: ({ [name]: items }) => items.length,
    plainValue: ({ [name]: items }) => items.map(({ value }) => item.plain(value)),
  };
}

function itemLines<Item>(item: ItemKind<string, Item>, one: Located<Item>): readonly string[] {
  // A colon has a meaning in YAML.
  const quoted = (text: string) => (text.includes(':') ? `"${text}"` : text);
  const plain = item.plain(one.value);
  const [first, ...others] =
    typeof plain === 'string'
      ? [quoted(plain)]
      : Object.entries(plain).map(([key, text]) => `${key}: ${quoted(text)}`);
  return [`  - ${first} ${originComment(one)}`, ...others.map((line) => `    ${line}`)];
}

function addressTexts({ destination, range }: MasqueradeAddress) {
  return { destination: destination.text, address: range.text };
}

function parsePrefixNode(node: Node, context: ParseContext): Prefix | undefined {
  if (node.kind !== 'scalar' || typeof node.value !== 'string') return undefined; // the schema said so
  const { families, report } = context;
  const parsed = parsePrefix(node.value);
  if ('error' in parsed) {
    const { message, remedy } = cidrAdvice(node.value, parsed.error);
    report('cidr', node, message, remedy);
    return undefined;
  }
  const { family, text: canonical } = parsed.prefix;
  if (!families.includes(family)) {
    const message = `${canonical} is ${family}, but ${family} is not enabled`;
    const name = FAMILY_NAMES[family];
    const remedy = `start the agent with --enable-${name}, or remove the entry`;
    report(`${name}-disabled`, node, message, remedy);
  }
  return parsed.prefix;
}

export function cidrAdvice(text: string, { message, remedy }: Advice): Advice {
  return { message: `${quote(text)} ${printable(message)}`, remedy: printable(remedy) };
}

function parseAddressNode(node: Node, context: ParseContext): MasqueradeAddress | undefined {
  if (node.kind !== 'map') return undefined; // the schema said so
  const [destination, range] = ADDRESS.itemKeys.map((name) => {
    const value = valueAt(node, name);
    return value && parsePrefixNode(value, context);
  });
  if (destination === undefined || range === undefined) return undefined;
  const unusable = UNUSABLE_AS_SOURCE[range.family].find(({ prefix }) => covers(prefix, range));
  if (unusable !== undefined) {
    const { prefix, rfc } = unusable;
    const message = `no packet can leave with an address in ${range.text}: ${prefix.text} is reserved (${rfc})`;
    context.report('unusable-range', node, message, 'write a range that holds an address of each node');
    return undefined;
  }
  if (destination.family === range.family) return { destination, range };
  const message = `the destination ${destination.text} is ${destination.family}, but its address range ${range.text} is ${range.family}`;
  context.report('other-family', node, message, 'write two items, one for each family');
  return undefined;
}

import { FAMILY_NAMES } from '../cidr/address.ts';
import { covers, type ParsedPrefix, type Prefix, parsePrefix } from '../cidr/prefix.ts';
import { UNUSABLE_AS_SOURCE } from '../cidr/reserved.ts';
import { printable, quote } from '../text/escape.ts';
import { type Located, originValue, withOrigin } from '../text/origin.ts';
import { truncated } from '../text/words.ts';
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
  /** The names of its texts in JSON; of an item that is a map, also its keys. */
  readonly fields: readonly string[];
  readonly isMap: boolean;
  /** What to write instead of a list or an item of the wrong shape, and of an empty item. */
  readonly remedy: string;
  readonly emptyRemedy: string;
  /** Undefined if something is wrong with it, which is reported. */
  parse(node: Node, context: ParseContext): Item | undefined;
  /** One text for each of its fields. */
  texts(item: Item): readonly string[];
  /** For people. */
  text(item: Item): string;
}

const CIDR: ItemKind<'cidrs', Prefix> = {
  kind: 'cidrs',
  definition: 'cidr',
  schema: {
    title: 'Network in CIDR notation',
    description: 'A canonical network address and its prefix length. No bits are set after the prefix.',
    type: 'string',
    pattern: '^[0-9A-Fa-f:.]+/(0|[1-9][0-9]{0,2})$',
    examples: ['10.0.0.0/8', 'fd00::/8'],
  },
  jsonSchema: { $ref: '#/$defs/cidrs' },
  fields: ['cidr'],
  isMap: false,
  remedy: 'write each CIDR on its own line behind a dash, such as "- 10.0.0.0/8"',
  emptyRemedy: 'remove it, or write a CIDR such as 10.0.0.0/8 behind a dash',
  parse: parsePrefixNode,
  texts: ({ text }) => [text],
  text: ({ text }) => text,
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
  fields: ['destination', 'address'],
  isMap: true,
  remedy: ADDRESS_REMEDY,
  emptyRemedy: ADDRESS_REMEDY,
  parse: parseAddressNode,
  texts: ({ destination, range }) => [destination.text, range.text],
  text: ({ destination, range }) => `${destination.text} as the node's address in ${range.text}`,
};

/** The `$defs` of the schema. */
export const ITEM_SCHEMAS: Readonly<Record<string, Schema>> = {
  [ADDRESS.definition]: ADDRESS.schema,
  [CIDR.definition]: CIDR.schema,
};

/** A list of networks; those of all config files are joined, each once. */
export const cidrListKey = (traits: KeyTraits) => listKey(CIDR, traits);

/** A list of destinations with the address that packets leave with; of all config files, each destination once. */
export const addressListKey = (traits: KeyTraits) => listKey(ADDRESS, traits);

const MOST_ITEMS = 100;

type Items<Item> = readonly Located<Item>[];

function listKey<Kind extends string, Item>(
  item: ItemKind<Kind, Item>,
  traits: KeyTraits,
): Key<Kind, Items<Item>, Items<Item>> {
  return {
    ...traits,
    kind: item.kind,
    schema: { type: 'array', items: { $ref: `#/$defs/${item.definition}` } },
    itemKeys: item.isMap ? item.fields : [],
    countsTowardsLimit: true,
    remedy(isItem, isEmpty) {
      if (!isEmpty) return item.remedy;
      return isItem ? item.emptyRemedy : 'write [] for an empty list, or remove the key';
    },
    parse(_, node, context) {
      if (node?.kind !== 'list') return [];
      return node.items.flatMap((one) => {
        const value = item.parse(one, context);
        return value === undefined ? [] : [context.located(value, one)];
      });
    },
    merge(all) {
      const seen = new Set<string>();
      return all.flat().filter(({ value }) => {
        const [first = ''] = item.texts(value);
        return !seen.has(first) && seen.add(first);
      });
    },
    setAt: ([first]) => first?.origin,
    json: (name, items) => ({
      [name]: items.map(({ value, origin }) => ({
        ...Object.fromEntries(item.texts(value).map((text, index) => [item.fields[index], text])),
        origin: originValue(origin),
      })),
    }),
    jsonSchema: (name) => ({ [name]: item.jsonSchema }),
    lines: (name, items) =>
      // Without the key, some readers would take their defaults.
      items.length === 0 ? [`${name}: []`] : [`${name}:`, ...items.flatMap((one) => itemLines(item, one))],
    text: (items) =>
      truncated(
        items,
        MOST_ITEMS,
        ({ value, origin }) => withOrigin(item.text(value), origin),
        (more) => `${more} more`,
      ).join(', '),
    logValue: (items) => items.length,
    plainValue: (items) => items.map(({ value }) => (item.isMap ? item.texts(value) : item.texts(value)[0])),
  };
}

function itemLines<Item>(item: ItemKind<string, Item>, one: Located<Item>): readonly string[] {
  const [first, ...others] = item.texts(one.value).map((text, index) => {
    // A colon has a meaning in YAML.
    const quoted = text.includes(':') ? `"${text}"` : text;
    return item.isMap ? `${item.fields[index]}: ${quoted}` : quoted;
  });
  return [`  - ${first} ${originComment(one)}`, ...others.map((line) => `    ${line}`)];
}

function parsePrefixNode(node: Node, context: ParseContext): Prefix | undefined {
  if (node.kind !== 'scalar' || typeof node.value !== 'string') return undefined; // the schema said so
  const remedyOf = (flag: string) => `start the agent with ${flag}, or remove the entry`;
  return checkedPrefix(node.value, parsePrefix(node.value), node, context, remedyOf);
}

/**
 * The prefix that a text stands for; undefined if it is none. Reports what is wrong with it.
 *
 * @param remedyOf what to do if the family needs a flag
 */
export function checkedPrefix(
  text: string,
  parsed: ParsedPrefix,
  at: Node,
  { families, report }: Pick<ParseContext, 'families' | 'report'>,
  remedyOf: (flag: string) => string,
): Prefix | undefined {
  if ('error' in parsed) {
    const { message, remedy } = parsed.error;
    report('cidr', at, `${quote(text)} ${printable(message)}`, printable(remedy));
    return undefined;
  }
  const { family, text: canonical } = parsed.prefix;
  if (!families.includes(family)) {
    const message = `${canonical} is ${family}, but ${family} is not enabled`;
    const name = FAMILY_NAMES[family];
    report(`${name}-disabled`, at, message, remedyOf(`--enable-${name}`));
  }
  return parsed.prefix;
}

function parseAddressNode(node: Node, context: ParseContext): MasqueradeAddress | undefined {
  if (node.kind !== 'map') return undefined; // the schema said so
  const [destination, range] = ADDRESS.fields.map((name) => {
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
  const message = `${destination.text} is ${destination.family}, but its address is to be in ${range.text}, which is ${range.family}`;
  context.report('other-family', node, message, 'write two items, one for each family');
  return undefined;
}

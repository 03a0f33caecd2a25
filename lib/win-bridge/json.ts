import { MANIFEST_LIMITS } from '../config/limits.ts';
import { describe, keyName, type Node, type Pair, parseDocuments } from '../config/yaml.ts';
import { errorMessage, PlacedError } from '../text/error.ts';
import { printable, quote } from '../text/escape.ts';

/** A CNI config has a few kilobytes and some 50 objects and lists; more is a mistake or an attack. */
const MAX_LENGTH = 256 * 1024;
/** The most objects and lists. */
const MAX_ITEMS = 1000;

const GIVE = 'give the CNI config of a Windows node';

/**
 * Reads a JSON text.
 *
 * @throws {PlacedError} for everything that Go's encoding/json refuses, such as comments and trailing commas
 */
export function parseStrict(json: string): Node {
  if (json.length > MAX_LENGTH) throw new PlacedError('is longer than 256 KiB', 0, GIVE);
  if (json.split(/[[{]/).length - 1 > MAX_ITEMS)
    throw new PlacedError(`has more than ${MAX_ITEMS} objects and lists`, 0, GIVE);
  try {
    JSON.parse(json);
  } catch (error) {
    throw json.trim() === '' ? new PlacedError('is empty', 0, GIVE) : syntaxError(json, errorMessage(error));
  }
  // JSON is YAML, whose reader says where each value stands, and keeps a key that is there twice.
  const [root] = parseDocuments(json, MANIFEST_LIMITS);
  if (root === undefined) throw new PlacedError('is empty', 0, GIVE);
  return root;
}

function syntaxError(json: string, reason: string): PlacedError {
  const offset = errorOffset(json, reason);
  if (/^(?:\/[/*]|#)/.test(json.slice(offset)))
    return new PlacedError('has a comment, but CNI configs are plain JSON', offset, 'remove the comment');
  const before = json.slice(0, offset).trimEnd();
  if (before.endsWith(',') && /[}\]]/.test(json.charAt(offset)))
    return new PlacedError('has a comma after the last item', before.length - 1, 'remove the comma');
  const [what = ''] = /^.*?(?= in JSON| of JSON|, (?:\.\.\.)?"| is not valid|$)/s.exec(reason) ?? [];
  const remedy = 'check quotes, commas and brackets here and just before';
  return new PlacedError(`is not valid JSON: ${printable(what)}`, offset, remedy);
}

/** The longest beginning of words of JSON in which none stands where a value belongs. */
const BEGINNING =
  /^(?:\s|[[{]|"(?:[^"\\]|\\.)*"|true|false|null|-?\d[\d.eE+-]*|(?<!(?:^|[[,:])\s*)[,:}]|(?<!(?:^|[,:])\s*)\])*/;

/** Where the text stops being JSON. V8 says it, but not for a character that begins no value. */
function errorOffset(json: string, reason: string): number {
  const [, position] = /at position (\d+)/.exec(reason) ?? [];
  if (position !== undefined) return Number(position);
  if (reason.startsWith('Unexpected end')) return json.length;
  return BEGINNING.exec(json)?.[0].length ?? 0;
}

/** The members of an object that replace its own of the same keys, or come behind all others. */
type Edits = ReadonlyMap<Node, object>;

/** The text with other values, and with its indentation, line breaks and order of keys. */
export function withEdits(json: string, root: Node, edits: Edits): string {
  const [, lineBreak = '', indent] = /(\r?\n)([ \t]+)/.exec(json) ?? [];
  const plain = (node: Node): unknown => {
    if (node.kind === 'list') return node.items.map(plain);
    if (node.kind === 'map')
      return {
        ...Object.fromEntries(node.pairs.map(({ key, value }) => [keyName(key), plain(value)])),
        ...edits.get(node),
      };
    // What is a number in JSON is text for YAML now and then.
    const [token = ''] = /^[^"][^\s,\]}]*/.exec(json.slice(node.offset, node.offset + 99)) ?? [];
    const value = token === '' ? node.value : JSON.parse(token);
    if (typeof value !== 'number' || Math.abs(value) <= Number.MAX_SAFE_INTEGER) return value;
    throw new PlacedError('has a number that is too large to be kept', node.offset, 'write it as text');
  };
  const text = JSON.stringify(plain(root), undefined, indent).replaceAll('\n', lineBreak);
  const start = json.length - json.trimStart().length;
  return `${json.slice(0, start)}${text}${json.slice(json.trimEnd().length)}`;
}

/**
 * The member that Go's encoding/json reads for a field, which ignores the case of keys.
 *
 * @throws {PlacedError} if there are two, of which Go would read the last
 */
export function member(object: Node, name: string): Pair | undefined {
  const pairs = object.kind === 'map' ? object.pairs : [];
  const [first, second] = pairs.filter(({ key }) => equalFold(keyName(key), name));
  if (second === undefined) return first;
  const message = `has ${quote(keyName(second.key))} more than once in one object; case makes no difference`;
  throw new PlacedError(message, second.key.offset, 'keep one of them');
}

/**
 * The member for a reader that does not ignore the case of keys.
 *
 * @throws {PlacedError} if the key is written in another case
 */
export function exactMember(object: Node, name: string): Pair | undefined {
  const found = member(object, name);
  if (found === undefined || keyName(found.key) === name) return found;
  const message = `has ${quote(keyName(found.key))}, but only "${name}" is read`;
  throw new PlacedError(message, found.key.offset, `write "${name}"`);
}

export function textOf(pair: Pair | undefined): string | undefined {
  return pair?.value.kind === 'scalar' && typeof pair.value.value === 'string' ? pair.value.value : undefined;
}

/** Whether two names are equal to Go's strings.EqualFold. */
export function equalFold(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

/** The items, if the value is a list. */
export function itemsOf(pair: Pair | undefined): readonly Node[] {
  return pair?.value.kind === 'list' ? pair.value.items : [];
}

const WANTED = { map: 'an object in braces', list: 'a list in brackets' };

/**
 * Refuses a value of another type.
 *
 * @param what the name of the value in the error
 * @throws {PlacedError}
 */
export function requireType(node: Node, kind: keyof typeof WANTED, what: string): void {
  if (node.kind === kind) return;
  const message = `${what} must be ${WANTED[kind]}, but is ${describe(node)}`;
  throw new PlacedError(message, node.offset, `write ${WANTED[kind]}`);
}

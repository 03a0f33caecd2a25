import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import { PlacedError } from '../text/error.ts';
import { quote } from '../text/escape.ts';

/** A JSON value with its position in the text. */
export type { Node } from 'jsonc-parser';

/** A CNI config has a few kilobytes and some 50 objects and lists; more is a mistake or an attack. */
const MAX_LENGTH = 256 * 1024;
/** The most objects and lists; this limits the depth of the parser's recursion. */
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
  const errors: ParseError[] = [];
  // Not JSON.parse: it has no offsets, and V8 13.6 can return a wrong key if a key contains \".
  const root = parseTree(json, errors, { disallowComments: true, allowEmptyContent: true });
  const [error] = errors;
  if (error !== undefined) throw syntaxError(json, error);
  if (root === undefined) throw new PlacedError('is empty', 0, GIVE);
  return root;
}

function syntaxError(json: string, { error, offset }: ParseError): PlacedError {
  const name = printParseErrorCode(error);
  if (name === 'InvalidCommentToken')
    return new PlacedError('has a comment, but CNI configs are plain JSON', offset, 'remove the comment');
  const before = json.slice(0, offset).trimEnd();
  if (before.endsWith(',') && /[}\]]/.test(json.charAt(offset)))
    return new PlacedError('has a comma after the last item', before.length - 1, 'remove the comma');
  const words = name.replace(/(?!^)[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
  const remedy = 'check quotes, commas and brackets here and just before';
  return new PlacedError(`is not valid JSON: ${words}`, offset, remedy);
}

/**
 * The member that Go's encoding/json reads for a field, which ignores the case of keys.
 *
 * @throws {PlacedError} if there are two, of which Go would read the last
 */
export function member(object: Node, name: string): Node | undefined {
  const properties = object.type === 'object' ? (object.children ?? []) : [];
  const [first, second] = properties.filter((property) => equalFold(keyOf(property), name));
  if (second === undefined) return first?.children?.[1];
  const message = `has ${quote(keyOf(second))} more than once in one object; case makes no difference`;
  throw new PlacedError(message, second.offset, 'keep one of them');
}

/**
 * The member for a reader that does not ignore the case of keys.
 *
 * @throws {PlacedError} if the key is written in another case
 */
export function exactMember(object: Node, name: string): Node | undefined {
  const value = member(object, name);
  const property = value?.parent;
  if (property === undefined || keyOf(property) === name) return value;
  const message = `has ${quote(keyOf(property))}, but only "${name}" is read`;
  throw new PlacedError(message, property.offset, `write "${name}"`);
}

export function textOf(node: Node | undefined): string | undefined {
  return node?.type === 'string' ? String(node.value) : undefined;
}

/** Whether two names are equal to Go's strings.EqualFold. */
export function equalFold(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

const WANTED = { object: 'an object in braces', array: 'a list in brackets' };

/**
 * The node, if it has the type.
 *
 * @param what the name of the value in the error
 * @throws {PlacedError} if it has another type
 */
export function requireType(node: Node, type: keyof typeof WANTED, what: string): Node {
  if (node.type === type) return node;
  const message = `${what} must be ${WANTED[type]}, but is of type ${node.type}`;
  throw new PlacedError(message, node.offset, `write ${WANTED[type]}`);
}

function keyOf(property: Node): string {
  return String(property.children?.[0]?.value);
}

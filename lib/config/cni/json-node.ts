import { quote } from '../../text/escape.ts';
import { CniError } from './cni-error.ts';
import type { Node } from './strict-json.ts';

/** A key of an object with its value. */
export interface Member {
  /** Both together. */
  readonly property: Node;
  readonly key: Node;
  readonly value: Node;
}

/** The members in their order; none of what is no object. */
export function members(object: Node): readonly Member[] {
  if (object.type !== 'object') return [];
  return (object.children ?? []).flatMap((property) => {
    const [key, value] = property.children ?? [];
    return key === undefined || value === undefined ? [] : [{ property, key, value }];
  });
}

/**
 * The member that Go would take for the field of this name: encoding/json matches keys whatever their case.
 *
 * @throws {CniError} where there are two, of which Go takes the last
 */
export function member(object: Node, name: string): Member | undefined {
  const [first, second] = members(object).filter(({ key }) => sameFolded(stringOf(key), name));
  if (second === undefined) return first;
  const message = `has ${quote(stringOf(second.key))} more than once in one object; case does not part them`;
  throw new CniError(message, second.key, 'keep one of them');
}

/** The value that Go would take for the field of this name: null leaves a field as if it were absent. */
export function field(object: Node, name: string): Node | undefined {
  const value = member(object, name)?.value;
  return value?.type === 'null' ? undefined : value;
}

/** Whether Go's encoding/json and strings.EqualFold take two names for the same. */
export function sameFolded(one: string, other: string): boolean {
  return fold(one) === fold(other);
}

/** The long s is an s to Go, and lower case leaves it alone. */
export function fold(name: string): string {
  return name.toLowerCase().replaceAll('\u017f', 's');
}

/** Refuses a key in another case, for a reader that does not fold. */
export function requireExact({ key }: Member, name: string, reader: string): void {
  if (stringOf(key) === name) return;
  throw new CniError(`has ${quote(stringOf(key))}, which ${reader} does not read`, key, `write "${name}"`);
}

const WANTED = { object: 'an object in braces', array: 'a list in brackets', string: 'text in quotes' };

/** @param what how the node is called in the error */
export function requireType(node: Node, type: keyof typeof WANTED, what: string): Node {
  if (node.type === type) return node;
  const message = `${what} must be ${WANTED[type]}, and is ${describe(node)}`;
  throw new CniError(message, node, `write ${WANTED[type]}`);
}

/** @param key how the list is called in the error */
export function requireItems(list: Node, key: string): readonly Node[] {
  return requireType(list, 'array', `"${key}"`).children ?? [];
}

/** @param what how the node is called in the error */
export function requireString(node: Node, what: string): string {
  return stringOf(requireType(node, 'string', what));
}

/** What a string node says. */
export function stringOf(node: Node): string {
  return String(node.value);
}

/** What a node is, for a sentence. */
export function describe(node: Node): string {
  if (node.type === 'string') return 'text';
  if (node.type === 'array') return 'a list';
  if (node.type === 'null') return 'null';
  return node.type === 'object' ? 'an object' : `a ${node.type}`;
}

import { isDeepStrictEqual } from 'node:util';
import { applyEdits, type Edit, findNodeAtLocation, getNodePath, getNodeValue, modify } from 'jsonc-parser';
import { PlacedError } from '../text/error.ts';
import { type Node, parseStrict, requireType } from './json.ts';
import { type NatPolicy, natPolicies } from './nat-policy.ts';

type ExceptionListResult = { readonly text: string } | { readonly error: PlacedError };

/**
 * Writes the destinations that are not SNATed into the CNI config of a Windows node: into the endpoint policy of Type
 * OutBoundNAT of each plugin, without any other change of the text. A config without such a policy is an error, and so is
 * an ambiguous one.
 *
 * @param cidrs IPv4 CIDRs; their texts are not changed
 */
export function withExceptionList(text: string, cidrs: readonly string[]): ExceptionListResult {
  try {
    // PowerShell 5 writes a byte order mark. A space in its place keeps the offsets.
    const json = text.replace(/^\ufeff/, ' ');
    const edits = natPolicies(parseStrict(json)).flatMap((found) => editsOf(json, found, cidrs));
    return { text: applyEdits(text, edits) };
  } catch (error) {
    if (error instanceof PlacedError) return { error };
    throw error;
  }
}

function editsOf(json: string, found: NatPolicy, cidrs: readonly string[]): readonly Edit[] {
  const { policy, path } = found;
  const list = findNodeAtLocation(policy, [...path]);
  if (list === undefined) return insertion(json, found, cidrs);
  if (list.type !== 'null') requireType(list, 'array', `"${path.join('.')}"`);
  if (isDeepStrictEqual(getNodeValue(list), cidrs)) return [];
  return [{ offset: list.offset, length: list.length, content: listText(json, list, cidrs) }];
}

/** Adds the list as the last member, on a line of its own if the previous member has one. */
function insertion(json: string, { policy, path }: NatPolicy, cidrs: readonly string[]): readonly Edit[] {
  const object = findNodeAtLocation(policy, path.slice(0, -1)) ?? policy;
  const previous = object.children?.at(-1);
  const gap = previous === undefined ? '' : blankBefore(json, previous);
  return modify(json, [...getNodePath(policy), ...path], cidrs, {}).map((edit) => ({
    ...edit,
    content: edit.content.replace(/^,/, `,${gap}`),
  }));
}

/** The new list with the white space of the old one. With fewer than two items, some of it is derived. */
function listText(json: string, list: Node, cidrs: readonly string[]): string {
  if (cidrs.length === 0) return '[]';
  const [first, second] = list.children ?? [];
  const last = list.children?.at(-1);
  const open = first ? json.slice(list.offset, first.offset) : '[';
  const close = last ? json.slice(endOf(last), endOf(list)) : ']';
  const shown = first && second && json.slice(endOf(first), second.offset);
  const comma = shown ?? `,${open.slice(1) || blankBefore(json, list)}`;
  return `${open}${cidrs.map((cidr) => JSON.stringify(cidr)).join(comma)}${close}`;
}

function blankBefore(json: string, { offset }: Node): string {
  const before = json.slice(0, offset);
  return before.slice(before.trimEnd().length);
}

function endOf({ offset, length }: Node): number {
  return offset + length;
}

import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../config/yaml.ts';
import { PlacedError } from '../text/error.ts';
import { exactMember, parseStrict, requireType, withEdits } from './json.ts';
import { type NatPolicy, natPolicies } from './nat-policy.ts';

type ExceptionListResult = { readonly text: string } | { readonly error: PlacedError };

/**
 * Writes the destinations that are not SNATed into the CNI config of a Windows node: into the endpoint policy of Type
 * OutBoundNAT of each plugin. A text that has them stays as it is. A config without such a policy is an error, and so is an
 * ambiguous one.
 *
 * @param cidrs IPv4 CIDRs; their texts are not changed
 */
export function withExceptionList(text: string, cidrs: readonly string[]): ExceptionListResult {
  try {
    // PowerShell 5 writes a byte order mark. A space in its place keeps the offsets.
    const json = text.replace(/^\ufeff/, ' ');
    const root = parseStrict(json);
    const edits = new Map(natPolicies(root).flatMap((found) => editOf(found, cidrs)));
    if (edits.size === 0) return { text };
    const written = withEdits(json, root, edits);
    return { text: json === text ? written : `\ufeff${written.slice(1)}` };
  } catch (error) {
    if (error instanceof PlacedError) return { error };
    throw error;
  }
}

function editOf({ policy, path }: NatPolicy, cidrs: readonly string[]): readonly (readonly [Node, object])[] {
  const [first = '', second = first] = path;
  const object = first === second ? policy : exactMember(policy, first)?.value;
  if (object === undefined) return [[policy, { [first]: { [second]: cidrs } }]];
  const list = exactMember(object, second)?.value;
  const isNull = list?.kind === 'scalar' && list.value === null;
  if (list !== undefined && !isNull) requireType(list, 'list', `"${path.join('.')}"`);
  const items = list?.kind === 'list' ? list.items : undefined;
  const values = items?.map((item) => item.kind === 'scalar' && item.value);
  return isDeepStrictEqual(values, cidrs) ? [] : [[object, { [second]: cidrs }]];
}

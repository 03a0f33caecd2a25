import { MANIFEST_LIMITS } from '../config/limits.ts';
import { keyName, type MapNode, type Node, parseDocuments, valueAt } from '../config/yaml.ts';
import { errorMessage, PlacedError } from '../text/error.ts';
import { printable } from '../text/escape.ts';

/**
 * Writes the destinations that are not SNATed into the CNI config of a Windows node: into the list of each policy of Type
 * OutBoundNAT. That is `ExceptionList` for HNS API 1, `Settings.Exceptions` for API 2: which of the two a plugin reads, the
 * policy says by having it. All else stays, byte for byte.
 *
 * @param cidrs IPv4 CIDRs; their texts are not changed
 * @throws {PlacedError} if the text is not JSON, or if it is unclear where the list belongs
 */
export function withExceptionList(json: string, cidrs: readonly string[]): string {
  // JSON is YAML, whose reader says where each value stands, and keeps a key that is there twice.
  const documents = parseDocuments(json, MANIFEST_LIMITS);
  requireJson(json);
  const policies = documents.flatMap(policiesIn);
  if (policies.length === 0)
    throw new PlacedError(
      'has no policy of Type OutBoundNAT',
      0,
      `add {"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", ${LIST_OF_API_1}}} to the policies of the plugin that makes endpoints`,
    );
  const items = cidrs.map((cidr) => JSON.stringify(cidr)).join(', ');
  return policies
    .map(listOffset)
    .reduceRight(
      (text, at) => `${text.slice(0, at)}[${items}]${text.slice(json.indexOf(']', at) + 1)}`,
      json,
    );
}

const LIST_OF_API_1 = '"ExceptionList": []';
const LIST_OF_API_2 = '"Settings": {"Exceptions": []}';

/** The longest beginning of words of JSON in which none stands where a value belongs. */
const BEGINNING =
  /^(?:\s|[[{]|"(?:[^"\\]|\\.)*"|true|false|null|-?\d[\d.eE+-]*|(?<!(?:^|[[,:])\s*)[,:}]|(?<!(?:^|[,:])\s*)\])*/;

/** As Go reads it: without comments and commas at the end. */
function requireJson(json: string): void {
  try {
    JSON.parse(json);
  } catch (error) {
    const reason = errorMessage(error);
    // V8 does not say where a character stands that begins no value.
    const position = /at position (\d+)/.exec(reason)?.[1] ?? BEGINNING.exec(json)?.[0].length;
    const remedy = 'check quotes, commas and brackets; a CNI config has no comments';
    throw new PlacedError(`is not JSON: ${printable(reason)}`, Number(position), remedy);
  }
}

/** From top to bottom. */
function policiesIn(node: Node): readonly MapNode[] {
  if (node.kind === 'scalar') return [];
  if (node.kind === 'list') return node.items.flatMap(policiesIn);
  const type = valueAt(node, 'Type');
  const isPolicy = type?.kind === 'scalar' && type.value === 'OutBoundNAT';
  return isPolicy ? [node] : node.pairs.flatMap(({ value }) => policiesIn(value));
}

function listOffset(policy: MapNode): number {
  const lists = [
    ...valuesAt(policy, 'ExceptionList'),
    ...valuesAt(valueAt(policy, 'Settings'), 'Exceptions'),
  ];
  const [list] = lists;
  if (lists.length === 1 && list?.kind === 'list' && list.items.every(isCidr)) return list.offset;
  const message = `has a policy of Type OutBoundNAT ${lists.length > 1 ? 'with two lists' : 'without a list of CIDRs'}`;
  const remedy = `write either ${LIST_OF_API_1} (HNS API 1) or ${LIST_OF_API_2} (API 2)`;
  throw new PlacedError(message, policy.offset, remedy);
}

function valuesAt(node: Node | undefined, name: string): readonly Node[] {
  const pairs = node?.kind === 'map' ? node.pairs : [];
  return pairs.filter(({ key }) => keyName(key) === name).map(({ value }) => value);
}

/** Or nearly: a text without brackets. */
function isCidr(node: Node): boolean {
  return node.kind === 'scalar' && typeof node.value === 'string' && !node.value.includes(']');
}

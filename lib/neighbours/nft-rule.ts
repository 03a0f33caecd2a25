import type { Family } from '../cidr/address.ts';
import type { Outcome, Rule } from './base-chain.ts';
import { ALWAYS, combine, NEVER, otherCondition, type Test } from './condition.ts';
import { elementValue, isObject, type Json, listAt, nameAndBody, objectAt, textAt } from './nft-json.ts';
import { isOfOther, type NamedElements, readMatch } from './nft-match.ts';
import { expressionText, pairText, statementText } from './nft-text.ts';

/** Statements after which the next statement always follows, and that decide nothing. */
const PASSIVE = [
  'counter',
  'log',
  'notrack',
  'mangle',
  'set',
  'map',
  'last',
  'flow',
  'dup',
  'continue',
  'ct helper',
  'ct timeout',
  'ct expectation',
];

/** Targets of iptables that nft(8) cannot translate. */
const MASQUERADING_TARGETS = ['MASQUERADE', 'SNAT', 'NETMAP'];

/**
 * Reads a rule of `nft -j list chain` for packets of one family. A rule with a verdict map becomes one rule for each
 * element of the map.
 *
 * @param rule the value of the member `rule`
 */
export function parseNftRule(family: Family, rule: Json, named: NamedElements): readonly Rule[] {
  const statements = listAt(rule, 'expr') ?? [];
  const comment = textAt(rule, 'comment');
  const words = [
    `chain ${textAt(rule, 'chain') ?? ''}:`,
    ...statements.map(statementText),
    ...(comment === undefined ? [] : [`comment "${comment}"`]),
  ];
  const text = words.filter((word) => word !== '').join(' ');
  const tests = statements.map((statement) => testOf(family, statement, named));
  const map = statements.map((statement) => objectAt(statement, 'vmap')).find((found) => found !== undefined);
  if (map !== undefined) {
    return elementsOf(map['data'], named).map((pair) => ({
      text: `${text} (${pairText(pair)})`,
      ...combine(family, [...tests, keyTest(family, map['key'], pair[0], named)]),
      outcome: outcomeOf([pair[1]]),
    }));
  }
  return [{ text, ...combine(family, tests), outcome: outcomeOf(statements) }];
}

/** The names of the sets and maps with which the rule decides about destinations. */
export function namesIn(rule: Json): readonly { readonly kind: 'set' | 'map'; readonly name: string }[] {
  return (listAt(rule, 'expr') ?? []).flatMap((statement) => {
    const match = objectAt(statement, 'match');
    const field = textAt(objectAt(match?.['left'], 'payload'), 'field');
    const set = field === 'daddr' ? referenced(match?.['right']) : undefined;
    const map = referenced(objectAt(statement, 'vmap')?.['data']);
    return [
      ...(set === undefined ? [] : [{ kind: 'set' as const, name: set }]),
      ...(map === undefined ? [] : [{ kind: 'map' as const, name: map }]),
    ];
  });
}

function referenced(value: Json): string | undefined {
  return typeof value === 'string' && value.startsWith('@') ? value.slice(1) : undefined;
}

function elementsOf(data: Json, named: NamedElements): readonly (readonly Json[])[] {
  const name = referenced(data);
  const elements = name === undefined ? listAt(data, 'set') : named.get(name);
  return (elements ?? []).filter((element) => Array.isArray(element));
}

/** The condition of an element of a verdict map. */
function keyTest(family: Family, key: Json, element: Json, named: NamedElements): Test {
  const right = elementValue(element);
  if (right === '*') return otherCondition(`${expressionText(key)} in no other element`);
  return readMatch(family, { match: { op: '==', left: key, right } }, named);
}

function testOf(family: Family, statement: Json, named: NamedElements): Test {
  const [name, body] = nameAndBody(statement);
  if (name === 'match') return readMatch(family, statement, named);
  if (name === 'snat' && isOfOther(family, textAt(body, 'family'))) return NEVER;
  if (name === 'vmap' || PASSIVE.includes(name) || verdictOf(statement) !== undefined) return ALWAYS;
  const target = name === 'xt' && (textAt(body, 'type') === 'target' || textAt(body, 'name') === 'comment');
  return target ? ALWAYS : otherCondition(statementText(statement));
}

function outcomeOf(statements: readonly Json[]): Outcome {
  const verdict = statements.map(verdictOf).find((outcome) => outcome !== undefined);
  if (verdict !== undefined) return verdict;
  return statements.some(changes) ? { kind: 'changes' } : { kind: 'goes on' };
}

function verdictOf(statement: Json): Outcome | undefined {
  const [name, body] = nameAndBody(statement);
  switch (name) {
    case 'masquerade':
    case 'snat':
      return { kind: 'masquerades' };
    case 'accept':
    case 'drop':
    case 'queue':
    case 'reject':
      return { kind: 'ends' };
    case 'return':
      return { kind: 'returns' };
    case 'jump':
    case 'goto':
      return { kind: name, chain: textAt(body, 'target') ?? '' };
    case 'xt': {
      const masquerades = MASQUERADING_TARGETS.includes(textAt(body, 'name') ?? '');
      return masquerades && textAt(body, 'type') === 'target' ? { kind: 'masquerades' } : undefined;
    }
    default:
      return undefined;
  }
}

function changes(statement: Json): boolean {
  if (isObject(statement) && textAt(statement['xt'], 'type') === 'target') {
    return ['MARK', 'CONNMARK'].includes(textAt(statement['xt'], 'name') ?? '');
  }
  const key = objectAt(objectAt(statement, 'mangle'), 'key');
  return objectAt(key, 'payload') !== undefined || textAt(objectAt(key, 'meta'), 'key') === 'mark';
}

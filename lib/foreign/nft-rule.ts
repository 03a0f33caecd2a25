import type { Family } from '../cidr/address.ts';
import { nothing } from '../cidr/ranges.ts';
import { combine, type Outcome, type Rule, type Test } from './base-chain.ts';
import { at, isObject, type Json, listAt, nameAndBody } from './nft-list.ts';
import { elementValue, familyNamed, type NftContext, readMatch, referenced } from './nft-match.ts';
import { nftText } from './nft-text.ts';

/** Statements that neither keep a packet from the next one nor decide about it. */
const PASSIVE =
  /^(counter|log|notrack|mangle|set|map|last|flow|dup|continue|vmap|ct (helper|timeout|expectation))$/;

/**
 * A rule as `nft -j list chain` has it, as packets of one family meet it. A verdict map makes one rule of each
 * of its elements.
 *
 * @param rule the value of the member `rule`
 */
export function parseNftRule(context: NftContext, rule: Json): readonly Rule[] {
  const { family, named, check } = context;
  const statements = listAt(rule, 'expr') ?? [];
  const [table, chain, comment] = ['table', 'chain', 'comment'].map((key) => nftText(at(rule, key)));
  const words = [`chain ${chain}:`, ...statements.map(nftText), comment && `comment "${comment}"`];
  const text = words.filter((word) => word !== '').join(' ');
  const place = `${table} ${chain}`;
  const tests = statements.map((statement) => testOf(context, place, statement));
  const map = statements.map((statement) => at(statement, 'vmap')).find(isObject);
  if (map === undefined) return [{ text, ...combine(family, tests), outcome: outcomeOf(statements) }];

  const data = at(map, 'data');
  const pairs = listAt(data, 'set') ?? named.get(referenced(data) ?? '') ?? [];
  return pairs.filter(Array.isArray).map(([key, verdict]) => {
    check();
    return {
      text: `${text} (${nftText(key)} : ${nftText(verdict)})`,
      ...combine(family, [...tests, keyTest(context, place, at(map, 'key'), elementValue(key))]),
      outcome: outcomeOf([verdict]),
    };
  });
}

/** Names of the sets and maps that decide where the rule sends a packet to a destination. */
export function namesIn(rule: Json): readonly { readonly kind: 'set' | 'map'; readonly name: string }[] {
  return (listAt(rule, 'expr') ?? []).flatMap((statement) => {
    const isDestination = at(statement, 'match', 'left', 'payload', 'field') === 'daddr';
    const set = isDestination ? referenced(at(statement, 'match', 'right')) : undefined;
    const map = referenced(at(statement, 'vmap', 'data'));
    return [
      ...(set === undefined ? [] : [{ kind: 'set' as const, name: set }]),
      ...(map === undefined ? [] : [{ kind: 'map' as const, name: map }]),
    ];
  });
}

/** What an element of a verdict map asks for. */
function keyTest(context: NftContext, place: string, left: Json, right: Json): Test {
  if (right === '*') return { text: `${nftText(left)} in no other element`, isSteady: false };
  return readMatch(context, place, { match: { op: '==', left, right } });
}

function testOf(context: NftContext, place: string, statement: Json): Test {
  const [name, body] = nameAndBody(statement);
  if (name === 'match') return readMatch(context, place, statement);
  const family: Family = familyNamed(at(body, 'family')) ?? context.family;
  if (name === 'snat' && family !== context.family) return nothing(context.family);
  const isSilent = name === 'xt' && (at(body, 'type') === 'target' || at(body, 'name') === 'comment');
  if (isSilent || PASSIVE.test(name) || verdictOf(statement) !== undefined) return undefined;
  return { text: nftText(statement), isSteady: false };
}

function outcomeOf(statements: readonly Json[]): Outcome {
  return statements.map(verdictOf).find((outcome) => outcome !== undefined) ?? { kind: 'goes on' };
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
      return { kind: name, chain: nftText(at(body, 'target')) };
    case 'xt': {
      // Targets of iptables that nft(8) cannot translate.
      const isNat = /^(MASQUERADE|SNAT|NETMAP)$/.test(nftText(at(body, 'name')));
      return isNat && at(body, 'type') === 'target' ? { kind: 'masquerades' } : undefined;
    }
    default:
      return undefined;
  }
}

import type { Family } from '../cidr/address.ts';
import { complement, nothing, parseRange, type RangeSet, rangeSet } from '../cidr/ranges.ts';
import { markTest, type Outcome, type Rule, ruleOf, type Test } from '../dataplane/rule.ts';
import { at, isObject, type Json, listAt, nameAndBody } from './nft-list.ts';

export interface NftContext {
  /** The family of the packets. */
  readonly family: Family;
  /** The elements of the named sets and maps of the table. */
  readonly named: ReadonlyMap<string, readonly Json[]>;
  /** Throws if the budget is used up. */
  readonly checkBudget: () => void;
}

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
  const { family, named, checkBudget } = context;
  const statements = listAt(rule, 'expr') ?? [];
  const [table, chain, comment] = ['table', 'chain', 'comment'].map((key) => nftText(at(rule, key)));
  const words = [`chain ${chain}:`, ...statements.map(nftText), comment && `comment "${comment}"`];
  const text = words.filter((word) => word !== '').join(' ');
  const tableAndChain = `${table} ${chain}`;
  const tests = statements.map((statement) => testOf(context, tableAndChain, statement));
  const map = statements.map((statement) => at(statement, 'vmap')).find(isObject);
  if (map === undefined) return [ruleOf(family, text, tests, outcomeOf(statements))];

  const data = at(map, 'data');
  const pairs = listAt(data, 'set') ?? named.get(setNameIn(data) ?? '') ?? [];
  return pairs.filter(Array.isArray).map(([key, verdict]) => {
    checkBudget();
    const asked = elementTest(context, tableAndChain, at(map, 'key'), elementValue(key));
    const element = `${text} (${nftText(key)} : ${nftText(verdict)})`;
    return ruleOf(family, element, [...tests, asked], outcomeOf([verdict]));
  });
}

/** Names of the sets and maps that decide where the rule sends a packet to a destination. */
export function namesIn(rule: Json): readonly { readonly kind: 'set' | 'map'; readonly name: string }[] {
  return (listAt(rule, 'expr') ?? []).flatMap((statement) => {
    const isDestination = at(statement, 'match', 'left', 'payload', 'field') === 'daddr';
    // A statement is one of the two.
    const kind = isDestination ? 'set' : 'map';
    const name = setNameIn(isDestination ? at(statement, 'match', 'right') : at(statement, 'vmap', 'data'));
    return name === undefined ? [] : [{ kind, name } as const];
  });
}

function elementTest(context: NftContext, tableAndChain: string, left: Json, right: Json): Test {
  if (right === '*') return { text: `${nftText(left)} in no other element`, isSteady: false };
  return readMatch(context, tableAndChain, { match: { op: '==', left, right } });
}

function testOf(context: NftContext, tableAndChain: string, statement: Json): Test {
  const [name, body] = nameAndBody(statement);
  if (name === 'match') return readMatch(context, tableAndChain, statement);
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
      return { kind: 'masquerades' };
    case 'snat':
      return { kind: 'masquerades', to: nftText(at(body, 'addr')) };
    case 'accept':
      return { kind: 'ends' };
    case 'drop':
    case 'queue':
    case 'reject':
      return { kind: 'else' };
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

/** How nft(8) names the families: in payloads, and as nfproto. */
const PROTOCOLS: Readonly<Record<string, Family>> = { ip: 'IPv4', ip6: 'IPv6', ipv4: 'IPv4', ipv6: 'IPv6' };

/** The family that nft(8) names so; undefined if it is none. */
function familyNamed(name: Json): Family | undefined {
  return typeof name === 'string' ? PROTOCOLS[name] : undefined;
}

/**
 * What a match asks of packets.
 *
 * @param tableAndChain the names of table and chain
 */
function readMatch(context: NftContext, tableAndChain: string, statement: Json): Test {
  const { family } = context;
  const [left, op, right] = ['left', 'op', 'right'].map((key) => at(statement, 'match', key));
  const other = { text: nftText(statement), isSteady: isSteady(left, right) };
  // "in" is how some versions write == of flags and sets.
  if (op !== '==' && op !== '!=' && op !== 'in') return other;
  const is = op !== '!=';
  const always = (answer: boolean) => (answer === is ? undefined : nothing(family));

  const protocol = familyNamed(at(left, 'payload', 'protocol'));
  if (protocol !== undefined && protocol !== family) return nothing(family);
  if (protocol !== undefined && at(left, 'payload', 'field') === 'daddr') {
    const set = addressesOf(context, right);
    if (set !== undefined) return is ? set : complement(set);
  }
  const asked = familyNamed(right);
  if (/^(nfproto|protocol)$/.test(keyOf(left)) && asked !== undefined) return always(asked === family);
  // Policies are only about destinations that are not local.
  const isType = at(left, 'fib', 'result') === 'type' && [at(left, 'fib', 'flags')].flat().includes('daddr');
  if (isType && right === 'local') return always(false);
  const [marked = left, bits = 0xffffffff] = listAt(left, '&') ?? [];
  const [mask, value] = [Number(bits), Number(right ?? Number.NaN)];
  if (keyOf(marked) !== 'mark' || !Number.isInteger(mask) || !Number.isInteger(value)) return other;
  return markTest(family, tableAndChain, value, mask, is);
}

/** The key of an expression `meta`; empty for any other expression. */
function keyOf(left: Json): string {
  return String(at(left, 'meta', 'key') ?? '');
}

/** Whether it is about a header, interface or protocol, and written out: a named set may change, a long one is cut off. */
function isSteady(left: Json, right: Json): boolean {
  const isKept = at(left, 'payload', 'field') !== undefined || /^[io]if|proto/.test(keyOf(left));
  const isValue = ['string', 'number'].includes(typeof right) && !String(right).startsWith('@');
  return isKept && (isValue || at(right, 'prefix') !== undefined || at(right, 'range') !== undefined);
}

/** The addresses that the right side of a match stands for; undefined if it is anything else. */
function addressesOf({ family, named, checkBudget }: NftContext, right: Json): RangeSet | undefined {
  const elements =
    setNameIn(right) === undefined ? (listAt(right, 'set') ?? [right]) : named.get(setNameIn(right) ?? '');
  const ranges = elements?.map((element) => {
    checkBudget();
    return parseRange(nftText(elementValue(element)));
  });
  return ranges?.every((range) => range !== undefined) ? rangeSet(family, ranges) : undefined;
}

/** The name of a set or map, which is written with `@`; undefined if it is anything else. */
function setNameIn(value: Json): string | undefined {
  return typeof value === 'string' && value.startsWith('@') ? value.slice(1) : undefined;
}

/** An element of a set without its comment, timeout and counter. */
function elementValue(element: Json): Json {
  return at(element, 'elem', 'val') ?? element;
}

/** Longer sets and maps are cut off. */
const MOST_ELEMENTS = 8;

/** A statement or expression about as nft(8) writes it, so that people recognise it; empty for a counter. */
function nftText(value: Json): string {
  if (Array.isArray(value)) return joined(value, ',');
  if (!isObject(value)) return String(value ?? '');
  const [name, body] = nameAndBody(value);
  const text = (key: string) => nftText(at(body, key));
  switch (name) {
    case 'counter':
      return '';
    case 'match':
      return words(text('left'), /^(==|in)$/.test(text('op')) ? '' : text('op'), text('right'));
    case 'meta':
      return words(/^[io]if/.test(text('key')) ? '' : name, text('key'));
    case 'payload':
      return words(text('protocol'), text('field')) || name;
    case 'prefix':
      return `${text('addr')}/${text('len')}`;
    case 'range':
      return joined(body, '-');
    case 'concat':
      return joined(body, ' . ');
    case '&':
    case '|':
    case '^':
      return joined(body, ` ${name} `);
    case 'set': {
      const elements = listAt(value, name) ?? [];
      const texts = elements.slice(0, MOST_ELEMENTS).map((element) => joined([element].flat(), ' : '));
      return `{ ${[...texts, ...(elements.length > MOST_ELEMENTS ? ['…'] : [])].join(', ')} }`;
    }
    case 'elem':
      return text('val');
    case 'map':
    case 'vmap':
      return words(text('key'), name, text('data'));
    case 'mangle':
      return words(text('key'), 'set', text('value'));
    default:
      return words(name, ...Object.values(isObject(body) ? body : [body]).map(nftText));
  }
}

function joined(values: Json, separator: string): string {
  return (Array.isArray(values) ? values : []).map(nftText).join(separator);
}

function words(...texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(' ');
}

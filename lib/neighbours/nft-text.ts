import { elementValue, isObject, type Json, listAt, nameAndBody, textAt } from './nft-json.ts';

/** Keys of `meta` that nft(8) writes without the word `meta`. */
const BARE_META = ['iif', 'oif', 'iifname', 'oifname', 'iiftype', 'oiftype', 'skuid', 'skgid'];

const VERDICTS = ['accept', 'drop', 'continue', 'return', 'jump', 'goto', 'queue'];

/** A statement similar to the output of nft(8), for people; empty for a counter. */
export function statementText(statement: Json): string {
  const [name, body] = nameAndBody(statement);
  switch (name) {
    case 'match':
      return matchText(body);
    case 'jump':
    case 'goto':
      return `${name} ${textAt(body, 'target') ?? ''}`;
    case 'masquerade':
      return ['masquerade', ...natWords(body)].join(' ');
    case 'snat':
      return ['snat to', expressionText(member(body, 'addr')), ...natWords(body)].join(' ');
    case 'vmap':
      return `${expressionText(member(body, 'key'))} vmap ${dataText(member(body, 'data'))}`;
    case 'mangle':
      return `${expressionText(member(body, 'key'))} set ${expressionText(member(body, 'value'))}`;
    case 'limit':
      return isObject(body) ? `limit rate ${String(body['rate'])}/${String(body['per'])}` : 'limit';
    case 'xt':
      return ['xt', textAt(body, 'type'), textAt(body, 'name')].filter(Boolean).join(' ');
    case 'counter':
      return '';
    default:
      return name;
  }
}

/** An expression similar to the output of nft(8), for people. */
export function expressionText(value: Json): string {
  if (Array.isArray(value)) return value.map(expressionText).join(',');
  if (!isObject(value)) return String(value);
  const [name, body] = nameAndBody(value);
  switch (name) {
    case 'payload':
      return [textAt(body, 'protocol'), textAt(body, 'field')].filter(Boolean).join(' ') || 'payload';
    case 'meta': {
      const key = textAt(body, 'key') ?? '';
      return BARE_META.includes(key) ? key : `meta ${key}`;
    }
    case 'prefix':
      return isObject(body) ? `${String(body['addr'])}/${String(body['len'])}` : name;
    case 'range':
      return Array.isArray(body) ? body.map(expressionText).join('-') : name;
    case 'set':
      return dataText(value);
    case 'concat':
      return Array.isArray(body) ? body.map(expressionText).join(' . ') : name;
    case '&':
    case '|':
    case '^':
      return Array.isArray(body) ? body.map(expressionText).join(` ${name} `) : name;
    case 'fib':
      return `fib ${expressionText(member(body, 'flags'))} ${textAt(body, 'result') ?? ''}`;
    case 'map':
      return `${expressionText(member(body, 'key'))} map ${dataText(member(body, 'data'))}`;
    case 'ct':
      return `ct ${textAt(body, 'key') ?? ''}`;
    case 'elem':
      return expressionText(elementValue(value));
    default:
      return JSON.stringify(value);
  }
}

function matchText(body: Json): string {
  if (!isObject(body)) return 'match';
  const op = body['op'];
  const words = [expressionText(body['left']), expressionText(body['right'])];
  return op === '==' || op === 'in' ? words.join(' ') : words.join(` ${String(op)} `);
}

/** The most elements of an anonymous set or map that are shown. */
const MOST_ELEMENTS = 8;

function dataText(data: Json): string {
  const elements = listAt(data, 'set');
  if (elements === undefined) return expressionText(data);
  const texts = elements
    .slice(0, MOST_ELEMENTS)
    .map((element) => (Array.isArray(element) ? pairText(element) : expressionText(element)));
  return `{ ${[...texts, ...(elements.length > MOST_ELEMENTS ? ['…'] : [])].join(', ')} }`;
}

/** An element of a map as text. */
export function pairText([key, value]: readonly Json[]): string {
  return `${expressionText(key)} : ${isVerdict(value) ? statementText(value) : expressionText(value)}`;
}

function isVerdict(value: Json): boolean {
  return VERDICTS.includes(nameAndBody(value)[0]);
}

function natWords(body: Json): readonly string[] {
  if (!isObject(body)) return [];
  const port = body['port'];
  return [
    ...(port === undefined ? [] : [`to :${expressionText(port)}`]),
    ...(body['flags'] === undefined ? [] : [expressionText(body['flags'])]),
  ];
}

function member(body: Json, key: string): Json {
  return isObject(body) ? body[key] : '';
}

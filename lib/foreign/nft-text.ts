import { at, isObject, type Json, listAt, nameAndBody } from './nft-list.ts';

/** Longer sets and maps are cut off. */
const MOST_ELEMENTS = 8;

/** A statement or expression about as nft(8) writes it, so that people recognise it; empty for a counter. */
export function nftText(value: Json): string {
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

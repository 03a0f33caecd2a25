/** How a YAML scalar is written; blocks, with `|` or `>`, count as plain. */
export type ScalarStyle = 'plain' | 'single-quoted' | 'double-quoted';

/**
 * Where each character of a YAML scalar's value stands in its text, without the quotes: the value has no
 * indentation, no escapes, and other line breaks (YAML 1.1, sections 8 and 9). Holds for all but white space, which
 * may be found a little further to the left.
 *
 * @returns one offset for each character, and one for the end
 */
export function alignScalar(raw: string, value: string, style: ScalarStyle): Uint32Array {
  const offsets = new Uint32Array(value.length + 1);
  let at = 0;
  let end = 0;
  for (let index = 0; index < value.length; ) {
    const char = value.charAt(index);
    const before = at;
    let unit = unitAt(raw, at, style);
    // Indentation, or a line break that is folded away.
    while (unit.length > 0 && isBlank(unit.text) && unit.text !== char) {
      at += unit.length;
      unit = unitAt(raw, at, style);
    }
    const blank = isBlank(char);
    // A blank that is nowhere in the text is one that folding has put in.
    const found = unit.length > 0 && isBlank(unit.text) === blank;
    const next = index + (found ? unit.text.length : 1);
    // Lines end before a carriage return.
    offsets.fill(char === '\n' || !found ? before : at, index, next);
    index = next;
    if (found) at += unit.length;
    if (!blank) end = at;
  }
  offsets[value.length] = end;
  return offsets;
}

/** What stands for one character, or for none, and which. */
interface Unit {
  readonly length: number;
  readonly text: string;
}

function unitAt(raw: string, at: number, style: ScalarStyle): Unit {
  const text = raw.charAt(at);
  if (style === 'double-quoted' && text === '\\') return escapeAt(raw, at);
  return { length: style === 'single-quoted' && text === "'" ? 2 : text.length, text };
}

function escapeAt(raw: string, at: number): Unit {
  const [written = '\\'] = /^\\(?:x..|u....|U........|\r?\n|.)/su.exec(raw.slice(at, at + 10)) ?? [];
  const name = written.charAt(1);
  const length = written.length;
  if (/[\r\n]/.test(name)) return { length, text: '' };
  if (length <= 2 || !/[xuU]/.test(name)) return { length, text: BLANK_ESCAPES[name] ?? name };
  const code = Number.parseInt(written.slice(2), 16);
  return { length, text: String.fromCodePoint(Math.min(code, 0x10ffff)) }; // js-yaml takes greater ones too
}

/** Only that they are blank, and which, makes a difference. */
const BLANK_ESCAPES: Readonly<Record<string, string>> = {
  t: '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  _: '\xa0',
  L: '\u2028',
  P: '\u2029',
};

function isBlank(text: string): boolean {
  return text === '' || /^\s/.test(text);
}

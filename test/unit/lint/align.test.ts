import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { dump, load } from 'js-yaml';
import { parseDocuments } from '../../../lib/config/yaml.ts';
import { alignScalar, type ScalarStyle } from '../../../lib/lint/align.ts';

describe('the places of a scalar', () => {
  for (const [name, style, raw, value, places] of [
    ['are those of its characters where it is written as it is', 'plain', 'ab c', 'ab c', [0, 1, 2, 3, 4]],
    ['leave out the indentation of a plain one', 'plain', 'a\n  b', 'a b', [0, 2, 4, 5]],
    ['leave out the indentation of a block', 'plain', '  a\n  b\n', 'a\nb\n', [2, 3, 6, 7, 7]],
    ['keep what a block is indented more', 'plain', '  a\n   - b\n', 'a\n - b\n', [2, 3, 4, 7, 8, 9, 10, 10]],
    ['find a tab behind the indentation', 'plain', '  a:\n  \t- b', 'a:\n\t- b', [2, 3, 4, 7, 8, 9, 10, 11]],
    ['end a line before its carriage return', 'plain', '  a\r\n  b\r\n', 'a\nb\n', [2, 3, 7, 8, 8]],
    ['see two quotes as one', 'single-quoted', "a''b", "a'b", [0, 1, 3, 4]],
    ['see an escape as one', 'double-quoted', '\\x41\\u00e9\\n\\"b', 'Aé\n"b', [0, 4, 10, 12, 14, 15]],
    [
      'give both halves of a pair the place of its escape',
      'double-quoted',
      '\\U0001F600b',
      '😀b',
      [0, 0, 10, 11],
    ],
    ['tell a pair of escapes apart', 'double-quoted', '\\ud83d\\ude00b', '😀b', [0, 6, 12, 13]],
    ['skip an escaped line break', 'double-quoted', 'a\\\n  b', 'ab', [0, 5, 6]],
    ['skip one with a carriage return', 'double-quoted', 'a\\\r\n  b', 'ab', [0, 6, 7]],
    ['take no escape for a folded break', 'double-quoted', 'a\n\\x41b', 'a Ab', [0, 1, 2, 6, 7]],
    ['take indentation for an escaped blank', 'double-quoted', 'a\n  \\ \\x41', 'a  A', [0, 2, 3, 6, 10]],
    [
      'end behind the last character, not behind blank lines',
      'plain',
      '  a: [\n\n\n',
      'a: [\n',
      [2, 3, 4, 5, 6, 6],
    ],
    ['survive an escape of no character', 'double-quoted', '\\UFFFFFFFFb', '\udbff\udfffb', [0, 0, 10, 11]],
    ['are none but an end where there is nothing', 'plain', '', '', [0]],
  ] as const) {
    it(name, () => assert.deepEqual([...alignScalar(raw, value, style)], places));
  }
});

/** A piece of a scalar's text, and the characters of the value that stand there; none but blanks where absent. */
interface Piece {
  readonly raw: string;
  readonly text?: string;
}

const WORDS = ['a', 'bc', 'it', 'é', '😀', '\ud7ff', '10.0.0.0/8', 'x#y', 'p:q', '\u200b'].map(as);
const ESCAPES: readonly Piece[] = [
  { raw: '\\x41', text: 'A' },
  { raw: '\\u00e9', text: 'é' },
  { raw: '\\U0001F600', text: '😀' },
  { raw: '\\U00000042', text: 'B' },
  { raw: '\\ud83d', text: '\ud83d' },
  { raw: '\\0', text: '\0' },
  { raw: '\\a', text: '\x07' },
  { raw: '\\b', text: '\b' },
  { raw: '\\e', text: '\x1b' },
  { raw: '\\N', text: '\x85' },
  { raw: '\\\\', text: '\\' },
  { raw: '\\/', text: '/' },
  { raw: '\\"', text: '"' },
];
const BLANK_ESCAPES = [
  '\\n',
  '\\t',
  '\\\t',
  '\\ ',
  '\\r',
  '\\v',
  '\\f',
  '\\_',
  '\\L',
  '\\P',
  '\\x20',
  '\\u000a',
].map(blank);
const BLANKS = [' ', '  ', '\t'].map(blank);
const BREAKS = ['\n ', '\n \t', '\n   ', '\n\n  ', '\n \n  ', ' \n\t\n \t', '\r\n  ', '\r\n\r\n '].map(blank);
const ESCAPED_BREAKS = ['\\\n ', '\\\n   ', '\\\n\n ', '\\\r\n  '].map(blank);

const QUOTED: Readonly<Record<string, { readonly style: ScalarStyle; readonly pieces: readonly Piece[] }>> = {
  plain: { style: 'plain', pieces: [...WORDS, ...["it's", 'a"'].map(as)] },
  'single-quoted': {
    style: 'single-quoted',
    pieces: [...WORDS, { raw: "''", text: "'" }, as('"'), as('\\n')],
  },
  'double-quoted': {
    style: 'double-quoted',
    pieces: [...WORDS, ...ESCAPES, ...BLANK_ESCAPES, ...ESCAPED_BREAKS, as("'")],
  },
};
const MARKS = { plain: '', 'single-quoted': "'", 'double-quoted': '"' } as const;

describe('every visible character of a value', () => {
  for (const [name, { style, pieces }] of Object.entries(QUOTED)) {
    it(`stands where it is written in a ${name} scalar`, () => {
      const piece = fc.constantFrom(...pieces, ...BLANKS, ...BREAKS);
      fc.assert(
        fc.property(fc.array(piece, { maxLength: 20 }), (middle) => {
          // White space at the ends would be none of a plain scalar's.
          const all = [as('x'), ...middle, as('z')];
          const text = all.map(({ raw }) => raw).join('');
          const value = load(`k: ${MARKS[style]}${text}${MARKS[style]}\n`);
          assertPlaces(text, textIn(value), style, placesOf(all));
        }),
        { numRuns: 500 },
      );
    });
  }

  for (const header of ['|', '>']) {
    it(`stands where it is written in a block that begins with ${header}`, () => {
      fc.assert(
        fc.property(anyBlock(), ({ indicators, pieces }) => {
          const text = pieces.map(({ raw }) => raw).join('');
          const value = load(`k: ${header}${indicators} # comment\n${text}z: 1\n`);
          assertPlaces(text, textIn(value), 'plain', placesOf(pieces));
        }),
        { numRuns: 500 },
      );
    });
  }

  it('stands where JSON has it', () => {
    const anyUnit = fc.oneof(
      fc.string({ unit: 'binary', minLength: 1 }),
      fc.constantFrom('\ud800', '"', '\\'),
    );
    const anyPiece = fc.tuple(anyUnit, fc.boolean()).map(([text, escaped]) => {
      const units = escaped ? text.split('') : [...text];
      return units.map((unit) => ({
        raw: escaped ? hex(unit) : JSON.stringify(unit).slice(1, -1),
        text: unit,
      }));
    });
    fc.assert(
      fc.property(fc.array(anyPiece, { maxLength: 8 }), (nested) => {
        const pieces = nested.flat();
        const text = pieces.map(({ raw }) => raw).join('');
        const value: unknown = JSON.parse(`"${text}"`);
        assert.ok(typeof value === 'string');
        assertPlaces(text, value, 'double-quoted', placesOf(pieces));
      }),
    );
  });

  it('stands where js-yaml has written it, whatever the style', () => {
    const anyText = fc.array(
      fc.constantFrom('a', 'b: c', ' ', '  ', '\n', '\t', "'", '"', '#', '- ', 'é', '😀', '\x07', '\\', '{'),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(anyText, fc.constantFrom(-1, 8, 20), fc.boolean(), (parts, lineWidth, forceQuotes) => {
        const written = parts.join('');
        const yaml = dump({ k: written }, { lineWidth, forceQuotes });
        const { value, raw, style } = scalarOf(yaml);
        assert.equal(value, written);
        const places = alignScalar(raw, value, style);
        let before = -1;
        for (const [index, char] of value.split('').entries()) {
          if (/\s/.test(char)) continue;
          const at = places[index] ?? -1;
          assert.ok(at > before || isLowSurrogate(char), `${JSON.stringify(yaml)}: ${index} is at ${at}`);
          assert.equal(
            unescaped(raw, at, style).includes(char),
            true,
            `${JSON.stringify(yaml)}: ${index} is at ${at}`,
          );
          before = at;
        }
      }),
      { numRuns: 1000 },
    );
  });
});

/** Lines of a block, of which some are blank and some are indented more than others; with the indicators they need. */
function anyBlock(): fc.Arbitrary<{ readonly indicators: string; readonly pieces: readonly Piece[] }> {
  const anyLine = fc.record({
    more: fc.constantFrom('', '', ' ', '   ', '\t'),
    words: fc.array(fc.constantFrom(...WORDS, as('"'), as("'"), as('\\'), as('#'), ...BLANKS), {
      maxLength: 5,
    }),
  });
  return fc
    .record({
      lines: fc.array(anyLine, { maxLength: 6 }),
      indentation: fc.integer({ min: 1, max: 4 }),
      chomping: fc.constantFrom('', '-', '+'),
      eol: fc.constantFrom('\n', '\r\n'),
    })
    .map(({ lines, indentation, chomping, eol }) => {
      const margin = blank(' '.repeat(indentation));
      return {
        indicators: `${indentation}${chomping}`,
        pieces: lines.flatMap(({ more, words }) =>
          words.length === 0 ? [blank(eol)] : [margin, blank(more), ...words, blank(eol)],
        ),
      };
    });
}

function as(text: string): Piece {
  return { raw: text, text };
}

function blank(raw: string): Piece {
  return { raw };
}

function hex(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Where each visible UTF-16 code unit of the value stands: in an escape they all stand at its beginning. */
function placesOf(pieces: readonly Piece[]): readonly number[] {
  let at = 0;
  return pieces.flatMap(({ raw, text = '' }) => {
    const begin = at;
    at += raw.length;
    return text.split('').flatMap((char, index) => {
      if (/\s/.test(char)) return [];
      return raw.length === text.length ? begin + index : begin;
    });
  });
}

function assertPlaces(raw: string, value: string, style: ScalarStyle, expected: readonly number[]): void {
  const places = alignScalar(raw, value, style);
  const visible = [...places.slice(0, -1)].filter((_, index) => !/\s/.test(value.charAt(index)));
  assert.deepEqual(visible, expected, JSON.stringify({ raw, value }));
}

function textIn(loaded: unknown): string {
  assert.ok(typeof loaded === 'object' && loaded !== null && 'k' in loaded && typeof loaded.k === 'string');
  return loaded.k;
}

/** The one value of a map, as it is written. */
function scalarOf(yaml: string): {
  readonly value: string;
  readonly raw: string;
  readonly style: ScalarStyle;
} {
  const [root] = parseDocuments(yaml, { depth: 2, aliases: 0, anyTag: false });
  const value = root?.kind === 'map' ? root.pairs[0]?.value : undefined;
  assert.ok(value?.kind === 'scalar' && typeof value.value === 'string');
  const style =
    (['single-quoted', 'double-quoted'] as const).find((one) => yaml[value.offset] === MARKS[one]) ?? 'plain';
  const start = value.offset + (style === 'plain' ? 0 : 1);
  return { value: value.value, raw: yaml.slice(start, value.end), style };
}

function unescaped(raw: string, at: number, style: ScalarStyle): string {
  if (style !== 'double-quoted' || raw[at] !== '\\') return raw.charAt(at);
  const [written = ''] = /^\\(?:x..|u....|U........|.)/s.exec(raw.slice(at)) ?? [];
  return String(load(`"${written}"`));
}

function isLowSurrogate(char: string): boolean {
  return /[\udc00-\udfff]/.test(char);
}

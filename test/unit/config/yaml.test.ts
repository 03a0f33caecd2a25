import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Node, parseYaml } from '../../../lib/config/yaml.ts';
import { PlacedError } from '../../../lib/text/error.ts';

const SYNTAX =
  'check indentation (spaces, no tabs), brackets, quotes and colons of this line and the one before; if this is a template, render it first';

describe('a scalar', () => {
  const values = [
    { value: true, texts: ['true', 'True', 'TRUE', 'yes', 'Yes', 'on', 'ON', 'y', '!!bool yes'] },
    { value: false, texts: ['false', 'no', 'off', 'Off', 'n'] },
    { value: null, texts: ['null', 'Null', '~', '!!null ~'] },
    {
      value: 64,
      texts: ['64', '+64', '6_4', '0x40', '0b1000000', '0100', '0o100', '+0o100', '!!int 64', '!!int "64"'],
    },
    { value: 1.5, texts: ['1.5'] },
    { value: Number.POSITIVE_INFINITY, texts: ['.inf'] },
    { value: '64', texts: ["'64'", '!!str 64', '! 64'] },
    { value: 'yes', texts: ['"yes"', '!!str yes'] },
    { value: '', texts: ['""', '!!str'] },
    { value: 'a\tbé', texts: ['"a\\tb\\u00e9"'] },
    { value: 'a\nb\n', texts: ['|\n  a\n  b'] },
    { value: 'a b', texts: ['>-\n  a\n  b', '"a\\\n  \\ b"'] },
    { value: 'a\\\\\nb', texts: ['"a\\\\\\\\\n\n  b"'] },
    // Plain texts that other YAML readers take for booleans, numbers or times.
    ...['tRue', 'yEs', '10.0.0.0/8', '1.2.3', '60s', '2026-01-31', '::1', '::/0', 'fd00::/8'].map((text) => ({
      value: text,
      texts: [text],
    })),
  ];
  for (const { value, texts } of values) {
    for (const text of texts) {
      it(`${JSON.stringify(text)} is ${typeof value === 'string' ? 'text' : value}`, () => {
        assert.deepEqual(valueAt(`k: ${text}`), value);
      });
    }
  }
});

describe('a YAML document', () => {
  for (const [name, text, value] of [
    ['is JSON as well', '{"a": [1, "x", true, null], "b": {}}', { a: [1, 'x', true, null], b: {} }],
    ['may begin with "---" and end with "..."', '---\na: 1\n...\n', { a: 1 }],
    ['may have a directive', '%YAML 1.1\n---\na: 1\n', { a: 1 }],
    ['may have comments', '# one\na: 1 # two\n# three\n', { a: 1 }],
    ['may end without a line break', 'a: 1', { a: 1 }],
    ['may use an anchor again', 'a: &x [1]\nb: *x\nc: [*x]', { a: [1], b: [1], c: [[1]] }],
    ['may redefine an anchor', 'a: &x 1\nb: *x\nc: &x 2\nd: *x', { a: 1, b: 1, c: 2, d: 2 }],
    ['may have empty values', 'a:\nb: []\nc: {}\nd:\n-\n-', { a: null, b: [], c: {}, d: [null, null] }],
    ['may have keys of any type', '1: a\ntrue: b\n~: c', { 1: 'a', true: 'b', null: 'c' }],
    ['may have harmless tags', '!!map\na: !!seq [!!str 1]', { a: ['1'] }],
  ] as const) {
    it(name, () => assert.deepEqual(plain(parseYaml(text)), value));
  }

  for (const text of [
    ...['', ' \n', '# only a comment', '---', '--- # nothing', '~', 'null', '\ufeff', '---\n...\n'],
  ]) {
    it(`holds nothing in ${JSON.stringify(text)}`, () => assert.equal(parseYaml(text), undefined));
  }

  it('knows where each value begins', () => {
    const text = '# c\na: &x [1, "q"]\nb:\n  - 2\n  - *x\n  -\n  - {k: v}\nc:\nd: |\n  text\n';
    const found = new Map(
      scalars(parseYaml(text)).map(({ value, offset }) => [value, text.slice(offset).slice(0, 3)]),
    );
    const begins = ['a', 1, 'q', 'b', 2, 'k', 'v'].map((value) => found.get(value));
    assert.deepEqual(begins, ['a: ', '1, ', '"q"', 'b:\n', '2\n ', 'k: ', 'v}\n']);
  });

  it('places a missing list item at its dash, and a missing value at its colon', () => {
    const text = 'a:\n  - 1\n  # comment - with dashes\n\n  -\n  - 3\nb:\nc: 1';
    const empty = scalars(parseYaml(text)).filter(({ value }) => value === null);
    const offsets = empty.map(({ offset }) => offset);
    assert.deepEqual(offsets, [text.indexOf('-\n  - 3'), text.indexOf(':\nc: 1')]);
  });
});

const ONE = 'keep one document, without "---" between';
const TAG = 'has a YAML tag that a config does not use';
const ANCHOR = 'has an alias for an anchor that is not complete here';
const DEEP = 'is not valid YAML: nesting exceeded maxDepth (16)';
const INVALID = 'is not valid YAML: ';
const other = (code: string) =>
  `has the invisible character U+${code}, which ends a line for kubectl and for other agents`;

describe('a text is rejected, at its place:', () => {
  for (const [text, at, message, remedy] of [
    ['a:\n\t- b', '\t', `${INVALID}tab characters must not be used in indentation`, SYNTAX],
    ['a: \x07', '\x07', `${INVALID}the stream contains non-printable characters`, SYNTAX],
    ['a: 1\n---\nb: 2', 'b: 2', 'has more than one YAML document', ONE],
    ['a: !env HOME', '!env', TAG, 'remove the word that begins with "!"'],
    ['a: !!python/object:os.system x', '!!python', TAG, 'remove the word that begins with "!"'],
    ['a: 1 # b\u2028c: 2', '\u2028', other('2028'), 'remove it, or write a line feed'],
    ['# b\u2029a: 1', '\u2029', other('2029'), 'remove it, or write a line feed'],
    ['a: "b"\u0085', '\u0085', other('0085'), 'remove it, or write a line feed'],
    ['# b\n  ---\na: 1', '---', 'has blanks before "---"', 'remove the blanks'],
    [
      'a: "b \\\\\\\r\n \t\n c"',
      '\\\r',
      'has a blank line behind a backslash that ends a line: kubectl reads a line break',
      'remove the blank line',
    ],
    ['a: *x', 'x', ANCHOR, 'define the anchor before'],
    ['a: &x [1, *x]', 'x]', ANCHOR, 'define the anchor before'],
    ['['.repeat(1_000), '['.repeat(985), DEEP, SYNTAX],
    ['- '.repeat(1_000), '- '.repeat(984), DEEP, SYNTAX],
  ] as const) {
    it(JSON.stringify(text.slice(0, 40)), () => {
      assert.throws(() => parseYaml(text), { constructor: PlacedError, message, remedy });
      assert.ok(text.slice(rejection(text).offset).startsWith(at), `at ${rejection(text).offset}`);
    });
  }

  it('after 100 aliases, not before', () => {
    const text = (aliases: number): string => `a: &a x\nb: [${'*a, '.repeat(aliases)}]`;
    assert.ok(parseYaml(text(100)));
    const [message, remedy] = ['has more than 100 aliases', 'write the values out'];
    assert.throws(() => parseYaml(text(101)), { message, remedy });
  });
});

function valueAt(text: string): unknown {
  const root = parseYaml(text);
  assert.ok(root?.kind === 'map');
  return plain(root.pairs[0]?.value);
}

function plain(node: Node | undefined): unknown {
  switch (node?.kind) {
    case 'scalar':
      return node.value;
    case 'list':
      return node.items.map(plain);
    case 'map':
      return Object.fromEntries(node.pairs.map(({ key, value }) => [String(plain(key)), plain(value)]));
    default:
      return undefined;
  }
}

function nodes(node: Node | undefined): readonly Node[] {
  if (node === undefined) return [];
  switch (node.kind) {
    case 'scalar':
      return [node];
    case 'list':
      return [node, ...node.items.flatMap(nodes)];
    case 'map':
      return [node, ...node.pairs.flatMap(({ key, value }) => [...nodes(key), ...nodes(value)])];
  }
}

function scalars(node: Node | undefined) {
  return nodes(node).filter((node) => node.kind === 'scalar');
}

function rejection(text: string): PlacedError {
  try {
    parseYaml(text);
  } catch (error) {
    if (error instanceof PlacedError) return error;
  }
  throw new Error('the text was parsed');
}

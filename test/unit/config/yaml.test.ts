import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Node, parseYaml, YamlError } from '../../../lib/config/yaml.ts';
import { almostConfig } from './arbitrary.ts';

/** What a rejection says: the message, and what to do. */
type Said = readonly [message: string, remedy: string];

const notYaml = (reason: string, remedy: string): Said => [`is not valid YAML: ${reason}`, remedy];
const CHECK = 'check indentation, quotes and colons of this line and the one before';
const CUT_OFF = 'close the bracket or quote; the file may be cut off';
const DEEP = notYaml(
  'nesting exceeded maxDepth (16)',
  'a config is a map of keys with flat lists; remove the nesting',
);
const DOCUMENTS: Said = ['has more than one YAML document', 'keep one document, without "---" between'];
const TAG: Said = ['has a YAML tag that a config does not use', 'remove the word that begins with "!"'];
const ALIAS: Said = ['has an alias for an anchor that is not complete here', 'define the anchor before'];
const ALIASES = { message: 'has more than 100 aliases', remedy: 'write the values out' };

describe('a plain scalar', () => {
  for (const [text, value] of [
    ['true', true],
    ['True', true],
    ['TRUE', true],
    ['yes', true],
    ['Yes', true],
    ['on', true],
    ['ON', true],
    ['y', true],
    ['false', false],
    ['no', false],
    ['off', false],
    ['Off', false],
    ['n', false],
    ['null', null],
    ['Null', null],
    ['~', null],
    ['64', 64],
    ['-1', -1],
    ['+7', 7],
    ['1_000', 1_000],
    ['0x10', 16],
    ['0b11', 3],
    ['010', 8],
    ['1.5', 1.5],
    ['.inf', Number.POSITIVE_INFINITY],
    ['tRue', 'tRue'],
    ['yEs', 'yEs'],
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['1.2.3', '1.2.3'],
    ['60s', '60s'],
    ['2026-01-31', '2026-01-31'],
    ['::1', '::1'],
    ['::/0', '::/0'],
    ['fd00::/8', 'fd00::/8'],
  ] as const) {
    it(`${text} is ${typeof value === 'string' ? 'text' : value}`, () => {
      assert.deepEqual(valueAt(`k: ${text}`), value);
    });
  }

  for (const [text, value] of [
    ['"yes"', 'yes'],
    ["'64'", '64'],
    ['""', ''],
    ['"a\\tb\\u00e9"', 'a\tbé'],
    ['!!str yes', 'yes'],
    ['!!str 64', '64'],
    ['!!str', ''],
    ['! 64', '64'],
    ['!!int 64', 64],
    ['!!int "64"', 64],
    ['!!bool yes', true],
    ['!!null ~', null],
    ['|\n  a\n  b', 'a\nb\n'],
    ['>-\n  a\n  b', 'a b'],
  ] as const) {
    it(`is typed by its quotes or its tag in ${JSON.stringify(text)}`, () => {
      assert.deepEqual(valueAt(`k: ${text}`), value);
    });
  }
});

describe('a YAML document', () => {
  for (const [name, text, value] of [
    ['is JSON as well', '{"a": [1, "x", true, null], "b": {}}', { a: [1, 'x', true, null], b: {} }],
    ['may begin with "---" and end with "..."', '---\na: 1\n...\n', { a: 1 }],
    ['may have a directive', '%YAML 1.1\n---\na: 1\n', { a: 1 }],
    ['may have comments', '# one\na: 1 # two\n# three\n', { a: 1 }],
    ['may have CRLF line ends', 'a:\r\n- 1\r\n- 2\r\nb: x\r\n', { a: [1, 2], b: 'x' }],
    ['may begin with a byte order mark', '\ufeffa: 1', { a: 1 }],
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
    '',
    ' \n',
    '# only a comment',
    '---',
    '--- # nothing',
    '~',
    'null',
    '\ufeff',
    '---\n...\n',
  ]) {
    it(`holds nothing in ${JSON.stringify(text)}`, () => assert.equal(parseYaml(text), undefined));
  }

  it('knows where each value begins', () => {
    const text = '# c\na: &x [1, "q"]\nb:\n  - 2\n  - *x\n  -\n  - {k: v}\nc:\nd: |\n  text\n';
    const found = new Map(
      scalars(parseYaml(text)).map(({ value, offset }) => [value, text.slice(offset).slice(0, 3)]),
    );
    assert.equal(found.get('a'), 'a: ');
    assert.equal(found.get(1), '1, ');
    assert.equal(found.get('q'), '"q"');
    assert.equal(found.get('b'), 'b:\n');
    assert.equal(found.get(2), '2\n ');
    assert.equal(found.get('k'), 'k: ');
    assert.equal(found.get('v'), 'v}\n');
  });

  it('places a missing list item at its dash, and a missing value at its colon', () => {
    const text = 'a:\n  - 1\n  # comment - with dashes\n\n  -\n  - 3\nb:\nc: 1';
    const empty = scalars(parseYaml(text)).filter(({ value }) => value === null);
    assert.deepEqual(
      empty.map(({ offset }) => offset),
      [text.indexOf('-\n  - 3'), text.indexOf(':\nc: 1')],
    );
  });
});

describe('a text is rejected, at its place,', () => {
  for (const [name, text, at, [message, remedy]] of [
    [
      'where a tab indents',
      'a:\n\t- b',
      '\t',
      notYaml('tab characters must not be used in indentation', 'indent with spaces'),
    ],
    [
      'where a list is cut off',
      'a: [b',
      '',
      notYaml('unexpected end of the stream within a flow collection', CUT_OFF),
    ],
    [
      'where a quoted text is cut off',
      'a: "b',
      '',
      notYaml('unexpected end of the stream within a double quoted scalar', CUT_OFF),
    ],
    [
      'where a colon is missing',
      'a: 1\nb\nc: 2',
      ': 2',
      notYaml('can not read a block mapping entry; a multiline key may not be an implicit key', CHECK),
    ],
    ['where a colon is too many', 'a: b: c', ': c', notYaml('bad indentation of a mapping entry', CHECK)],
    [
      'where a character may not begin a value',
      '@a',
      '@a',
      notYaml('end of the stream or a document separator is expected', CHECK),
    ],
    [
      'where the version is of the future',
      '%YAML 2.0\n---\na: 1',
      '---',
      notYaml('unacceptable YAML version of the document', CHECK),
    ],
    [
      'where a control character is',
      'a: \u0007b',
      '\u0007',
      notYaml('the stream contains non-printable characters', 'remove the control character'),
    ],
    ['where a second document begins', 'a: 1\n---\nb: 2', 'b: 2', DOCUMENTS],
    ['where more follows the end of the document', 'a: 1\n...\nb: 2', 'b: 2', DOCUMENTS],
    ['where a tag is foreign', 'a: !env HOME', '!env', TAG],
    ['where a tag is of some language', 'a: !!python/object:os.system x', '!!python', TAG],
    ['where an alias has no anchor', 'a: *x', 'x', ALIAS],
    ['where an alias is inside what it stands for', 'a: &x [1, *x]', 'x]', ALIAS],
    ['where lists are nested deeply', '['.repeat(1_000), '['.repeat(985), DEEP],
    ['where block lists are nested deeply', '- '.repeat(1_000), '- '.repeat(984), DEEP],
  ] as const) {
    it(name, () => {
      assert.throws(() => parseYaml(text), { constructor: YamlError, message, remedy });
      assert.ok(text.slice(rejection(text).offset).startsWith(at), `at ${rejection(text).offset}`);
    });
  }

  it('where aliases multiply', { timeout: 1_000 }, () => {
    const levels = Array.from({ length: 25 }, (_, level) => {
      const [name, previous] = [String.fromCharCode(98 + level), String.fromCharCode(97 + level)];
      return `${name}: &${name} [${Array.from({ length: 9 }, () => `*${previous}`).join(', ')}]`;
    });
    const bomb = `a: &a [lol]\n${levels.join('\n')}`;
    assert.throws(() => parseYaml(bomb), ALIASES);
  });

  it('after 100 aliases, not before', () => {
    const text = (aliases: number): string => `a: &a x\nb: [${'*a, '.repeat(aliases)}]`;
    assert.ok(parseYaml(text(100)));
    assert.throws(() => parseYaml(text(101)), ALIASES);
  });
});

describe('any text', () => {
  it('is parsed or rejected with a place inside the text', () => {
    fc.assert(
      fc.property(almostConfig(), (text) => {
        try {
          for (const { offset } of nodes(parseYaml(text))) assertInside(offset, text);
        } catch (error) {
          assert.ok(error instanceof YamlError, String(error));
          assertInside(error.offset, text);
        }
      }),
      { numRuns: 3_000 },
    );
  });

  for (const unit of [
    '\n',
    ' ',
    '#\n',
    '- ',
    '-\n',
    '? ',
    ': ',
    '!',
    '&a ',
    '*a ',
    '[',
    '{a: ',
    'a:\n',
    '"',
    '|\n',
  ]) {
    it(`is answered soon for 512 KiB of ${JSON.stringify(unit)}`, { timeout: 5_000 }, () => {
      for (const head of ['', 'a:', 'a: [']) {
        try {
          parseYaml(head + unit.repeat(2 ** 19 / unit.length));
        } catch (error) {
          assert.ok(error instanceof YamlError, String(error));
        }
      }
    });
  }
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

function rejection(text: string): YamlError {
  try {
    parseYaml(text);
  } catch (error) {
    if (error instanceof YamlError) return error;
  }
  throw new Error('the text was parsed');
}

function assertInside(offset: number, text: string): void {
  assert.ok(Number.isInteger(offset) && offset >= 0 && offset <= text.length, `${offset} of ${text.length}`);
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { mergeSources } from '../../../lib/config/load.ts';
import { formatProblem, formatProblemFrame } from '../../../lib/config/problem.ts';
import { type Manifest, readManifest } from '../../../lib/lint/manifest.ts';
import { almostConfig } from '../config/arbitrary.ts';
import { OPTIONS } from '../config/support.ts';
import { MISTAKES } from './manifest-mistakes.ts';
import { SHAPES } from './manifest-shapes.ts';
import { CONFIG_MAP, configMap } from './manifest-support.ts';

for (const [title, cases] of [
  ['a manifest may be or hold', SHAPES],
  ['what is wrong in a manifest is said at its place:', MISTAKES],
] as const) {
  describe(title, () => {
    for (const [name, marked, ...said] of cases) {
      it(name, () => {
        const { text, places } = unmark(marked);
        const found = check(text);
        const expected = said.map((line, index) => `m.yaml:${places[index]?.join(':')}: ${line}`);
        assert.deepEqual(found.map(({ line }) => line).sort(byPlace), expected);
        for (const { frame } of found) assertFrame(frame, text);
      });
    }
  });
}

describe('a manifest', () => {
  it('gives each source the text that the volume will have', () => {
    const text =
      'apiVersion: v1\nkind: ConfigMap\ndata: {ip-masq-a: "\\ufeffa\\r\\n", other: x}\nbinaryData:\n  ip-masq-b: |\n    YW\n    I=\n';
    assert.deepEqual(
      read(text).sources.map((source) => [
        source.name,
        source.text,
        source.found?.file,
        source.found?.text === text,
      ]),
      [
        ['ip-masq-a', 'a\r\n', 'm.yaml', true],
        ['ip-masq-b', 'ab', 'm.yaml', true],
      ],
    );
  });

  for (const [name, text, expected] of [
    [
      'without a ConfigMap has no source',
      'apiVersion: v1\nkind: Secret\ndata: {ip-masq-a: YQ==}\nstringData: {ip-masq-b: b}\n',
      [],
    ],
    [
      'has a ConfigMap once that an alias repeats',
      'apiVersion: v1\nkind: List\nitems:\n- &a {kind: ConfigMap, data: {ip-masq-a: a}}\n- *a\n',
      ['ip-masq-a'],
    ],
    [
      'has its sources from top to bottom',
      `kind: List\napiVersion: v1\nitems:\n${['c', 'a', 'b'].map((key) => `- {kind: ConfigMap, data: {ip-masq-${key}: x}}\n`).join('')}`,
      ['ip-masq-c', 'ip-masq-a', 'ip-masq-b'],
    ],
    [
      'takes a quoted << for a key like others',
      'apiVersion: v1\nkind: ConfigMap\ndata: {"<<": {ip-masq-a: a}}\n',
      [],
    ],
    [
      'merges lists of maps, the first of which counts',
      'apiVersion: v1\nkind: ConfigMap\ndata: {<<: [{ip-masq-a: a}, {ip-masq-a: b, ip-masq-b: b}, 5]}\n',
      ['ip-masq-a', 'ip-masq-b'],
    ],
  ] as const) {
    it(name, () =>
      assert.deepEqual(
        read(text).sources.map((source) => source.name),
        expected,
      ),
    );
  }

  for (const [name, text] of [
    ['an empty file', ''],
    ['a config', 'nonMasqueradeCIDRs: [10.0.0.0/8]\n'],
    ['a config that is no YAML', 'nonMasqueradeCIDRs: [10.0.0.0/8\n'],
    ['two configs', 'a: 1\n---\nb: 1\n'],
    ['a list', '- apiVersion: v1\n  kind: ConfigMap\n'],
    ['only a kind', 'kind: ConfigMap\n'],
  ] as const) {
    it(`is not what ${name} is taken for`, () => assert.equal(readManifest('m.yaml', text), undefined));
  }
});

describe('reading a manifest', () => {
  it('ends in an answer, whatever the text', () => {
    const anyText = fc.tuple(
      fc.constantFrom(
        '',
        'apiVersion: v1\nkind: ConfigMap\ndata:\n  ip-masq-a: |\n   ',
        '{apiVersion: v1, kind: ConfigMap, data: ',
      ),
      almostConfig(),
      fc.boolean(),
    );
    fc.assert(
      fc.property(anyText, ([before, config, inside]) => {
        const text = `${before}${inside ? config.replaceAll('\n', '\n   ') : config}`;
        const manifest = readManifest('m.yaml', text);
        for (const { line, frame } of manifest === undefined ? [] : check(text)) {
          assert.match(line, /^m\.yaml:\d+:\d+: /);
          assert.equal(frame.split('\n').length >= 3, true, frame);
        }
      }),
      { numRuns: 1000 },
    );
  });

  const nested = (levels: number, level: (index: number) => string) =>
    Array.from({ length: levels }, (_, index) => level(index)).join('');
  for (const [name, text, sources] of [
    [
      'a list of 9 levels of 9 aliases',
      `l0: &l0 {kind: ConfigMap, data: {ip-masq-a: x}}\n${nested(9, (n) => `l${n + 1}: &l${n + 1} {kind: List, items: [${Array<string>(9).fill(`*l${n}`).join()}]}\n`)}apiVersion: v1\nkind: List\nitems: [*l9]\n`,
      1,
    ],
    [
      '9 levels of 9 merges',
      `l0: &l0 {ip-masq-a: x}\n${nested(9, (n) => `l${n + 1}: &l${n + 1} {<<: [${Array<string>(9).fill(`*l${n}`).join()}]}\n`)}apiVersion: v1\nkind: ConfigMap\ndata: *l9\n`,
      1,
    ],
    [
      'lists nested 9,000 levels deep by aliases',
      `l0: &l0 {kind: ConfigMap, data: {ip-masq-a: x}}\n${nested(9000, (n) => `l${n + 1}: &l${n + 1} {kind: List, items: [*l${n}]}\n`)}apiVersion: v1\nkind: List\nitems: [*l9000]\n`,
      1,
    ],
    [
      'merges nested 9,000 levels deep by aliases',
      `l0: &l0 {ip-masq-a: x}\n${nested(9000, (n) => `l${n + 1}: &l${n + 1} {<<: *l${n}}\n`)}apiVersion: v1\nkind: ConfigMap\ndata: *l9000\n`,
      1,
    ],
    ['2,000 broken documents', `${'x: "\n---\n'.repeat(2000)}${CONFIG_MAP}`, 1],
    ['20,000 other ConfigMaps', `${`${configMap('other: x')}---\n`.repeat(20_000)}${CONFIG_MAP}`, 1],
    ['100,000 keys', configMap(...Array.from({ length: 100_000 }, (_, n) => `k${n}: x`), 'ip-masq-a: x'), 1],
    [
      'binaryData of 16 MiB',
      `apiVersion: v1\nkind: ConfigMap\nbinaryData: {ip-masq-a: ${'A'.repeat(16 * 1024 * 1024)}, ip-masq-b: YQ==}\n`,
      1,
    ],
    [
      'a text of 1 MiB of escapes',
      `apiVersion: v1\nkind: ConfigMap\ndata: {ip-masq-a: "${'\\u0041'.repeat(1024 * 1024)}"}\n`,
      1,
    ],
    ['a block of 1 MiB of blanks', configMap('ip-masq-a: |', `  #${' \n  '.repeat(300_000)}`), 1],
  ] as const) {
    it(`takes less than two seconds for ${name}`, () => {
      const begin = performance.now();
      assert.equal(read(text).sources.length, sources);
      assert.ok(performance.now() - begin < 2000, `took ${performance.now() - begin} ms`);
    });
  }
});

function read(text: string): Manifest {
  return readManifest('m.yaml', text) ?? assert.fail('is no manifest');
}

/** Each problem in one line, and with its frame. */
function check(text: string) {
  const { sources, problems } = read(text);
  const checked = sources.flatMap((source) => mergeSources([source], OPTIONS).problems);
  const texts = [...sources, { name: 'm.yaml', text }];
  return [...problems, ...checked].map((problem) => ({
    line: formatProblem(problem),
    frame: formatProblemFrame(problem, texts),
  }));
}

/** The text without its marks, and the line and column of the character behind each. */
function unmark(marked: string) {
  const [first = '', ...others] = marked.split('‸');
  let text = first;
  const places: (readonly [number, number])[] = [];
  for (const other of others) {
    const lines = text.split('\n');
    places.push([lines.length, (lines.at(-1)?.length ?? 0) + 1]);
    text += other;
  }
  return { text, places };
}

/** The frame shows the line of the manifest, or as much of it as fits, and the caret is under the column. */
function assertFrame(frame: string, text: string): void {
  const [head = '', shown = '', caret = ''] = frame.split('\n');
  const [, line = '', column = ''] = /^m\.yaml:(\d+):(\d+): /.exec(head) ?? assert.fail(head);
  const written = text.split(/\r?\n/)[Number(line) - 1] ?? '';
  const gutter = ` ${line} | `.length;
  assert.equal(shown.slice(0, gutter), ` ${line} | `);
  assert.ok(printed(written).includes(shown.slice(gutter)), frame);
  const before = printed(written.slice(0, Number(column) - 1));
  assert.equal(caret.slice(gutter), `${' '.repeat(Math.min(before.length, 60))}^`, frame);
}

function printed(text: string): string {
  return text.replaceAll('\t', '\\x09');
}

function byPlace(a: string, b: string): number {
  const [lineA = 0, columnA = 0] = a.split(':').slice(1).map(Number);
  const [lineB = 0, columnB = 0] = b.split(':').slice(1).map(Number);
  return lineA - lineB || columnA - columnB;
}

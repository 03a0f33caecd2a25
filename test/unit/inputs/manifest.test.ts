import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type ConfigFile, LINE_BREAK } from '../../../lib/config/config-file.ts';
import { problemFramer } from '../../../lib/config/frame.ts';
import { mergeConfigFiles } from '../../../lib/config/load.ts';
import { locationText, sentence } from '../../../lib/config/problem.ts';
import { useWork } from '../../lab/work.ts';
import { almostConfig } from '../config/arbitrary.ts';
import { namesOf, OPTIONS, validate } from '../config/support.ts';
import { readAlone } from './alone.ts';
import { CONFIG_MAP, configMap, MISTAKES, SHAPES } from './manifest-cases.ts';

for (const [title, cases] of [
  ['a manifest may be or hold', SHAPES],
  ['what is wrong in a manifest is said at its place:', MISTAKES],
] as const) {
  describe(title, () => {
    for (const [name, marked, ...said] of cases) {
      it(name, () => {
        const { text, places } = unmark(marked);
        const found = check(text);
        const foundAt = found.map(({ place }) => place);
        assert.deepEqual(foundAt, places);
        for (const [index, { place, line, frame }] of found.entries()) {
          assert.ok(line.startsWith(said[index] ?? ''), line);
          assertFrame(place, frame, text);
        }
      });
    }
  });
}

describe('a manifest', () => {
  it('gives each config file the text that the volume will have', () => {
    const text =
      'apiVersion: v1\nkind: ConfigMap\ndata: {ip-masq-a: "\\ufeffa\\r\\n", other: x}\nbinaryData:\n  ip-masq-b: |\n    YW\n    I=\n';
    const configFiles = read(text).configFiles.map((configFile) => [
      configFile.name,
      configFile.text,
      configFile.embeddedIn?.file,
    ]);
    assert.deepEqual(configFiles, [
      ['ip-masq-a', 'a\r\n', { name: 'm.yaml', text }],
      ['ip-masq-b', 'ab', { name: 'm.yaml', text }],
    ]);
  });

  const mounted = configMap('config: a', 'ip-masq-b: b', 'other: c');
  const projected = (items: string, namespace = '') =>
    `{kind: DaemonSet, apiVersion: apps/v1, metadata: {${namespace}}, spec: {template: {spec: {volumes: [{projected: {sources: [{configMap: {name: ip-masq${items}}}]}}]}}}}`;
  const CONFIG = ', items: [{key: config, path: ip-masq-agent}]';
  for (const [what, workload, expected] of [
    ['nothing', '{kind: DaemonSet, apiVersion: apps/v1}', ['ip-masq-b']],
    ['one key as another file', projected(CONFIG), ['ip-masq-agent']],
    ['every key', projected(', items: []'), ['ip-masq-b']],
    ['a ConfigMap of another name', projected(CONFIG).replace('ip-masq,', 'other,'), ['ip-masq-b']],
    ['keys twice', `${projected(CONFIG)}\n---\n${projected('')}`, ['ip-masq-agent', 'ip-masq-b']],
    [
      'from a plain volume of a CronJob',
      `{kind: CronJob, apiVersion: batch/v1, spec: {jobTemplate: {spec: {template: {spec: {volumes: [{configMap: {name: ip-masq${CONFIG}}}]}}}}}}`,
      ['ip-masq-agent'],
    ],
    [
      'from a Pod',
      `{kind: Pod, apiVersion: v1, spec: {volumes: [{configMap: {name: ip-masq${CONFIG}}}]}}`,
      ['ip-masq-agent'],
    ],
  ] as const)
    it(`has the files that a workload mounts: ${what}`, () => {
      assert.deepEqual(namesIn(`${mounted}---\n${workload}\n`), expected);
      assert.deepEqual(namesIn(`${workload}\n---\n${mounted}`), expected);
    });

  it('has the files of its own namespace', () => {
    const other = projected(CONFIG, 'namespace: b');
    const inNamespace = mounted.replace('metadata:', 'metadata:\n  namespace: a');
    assert.deepEqual(namesIn(`${inNamespace}---\n${other}\n`), ['ip-masq-b']);
    assert.deepEqual(namesIn(`${mounted}---\n${other}\n`), ['ip-masq-agent']);
  });

  const LIST = 'apiVersion: v1\nkind: List\nitems:\n';
  const item = (key: string) => `- {kind: ConfigMap, data: {ip-masq-${key}: x}}\n`;
  for (const [name, text, expected] of [
    ['without a ConfigMap has no config file', 'apiVersion: v1\nkind: Secret\ndata: {ip-masq-a: YQ==}\n', []],
    [
      'has a ConfigMap once that an alias repeats',
      `${LIST}${item('a').replace('{', '&x {')}- *x\n`,
      ['ip-masq-a'],
    ],
    [
      'has its config files from top to bottom',
      `${LIST}${['c', 'a', 'b'].map(item).join('')}`,
      ['ip-masq-c', 'ip-masq-a', 'ip-masq-b'],
    ],
  ] as const) {
    it(name, () => assert.deepEqual(namesIn(text), expected));
  }

  for (const [name, text] of [
    ['an empty file', ''],
    ['a config', 'nonMasqueradeCIDRs: [10.0.0.0/8]\n'],
    ['a config that is not YAML', 'nonMasqueradeCIDRs: [10.0.0.0/8\n'],
    ['two configs', 'a: 1\n---\nb: 1\n'],
    ['a list', '- apiVersion: v1\n  kind: ConfigMap\n'],
    ['only a kind', 'kind: ConfigMap\n'],
  ] as const) {
    it(`is not what ${name} is taken for`, () =>
      assert.equal(readAlone({ name: 'm.yaml', text }), undefined));
  }
});

describe('a problem in a literal block', () => {
  it('stands where the manifest has the text that it is about, whatever the config', () => {
    const anyBlock = fc.record({
      // A byte order mark, which nobody sees, is dropped: what follows it in its line is one column off.
      config: almostConfig().map((text) => text.replace(/^\uFEFF+/, '')),
      indentation: fc.integer({ min: 1, max: 5 }),
      header: fc.constantFrom('', '-', '+'),
      eol: fc.constantFrom('\n', '\r\n', '\r'),
    });
    fc.assert(
      fc.property(anyBlock, ({ config, indentation, header, eol }) => {
        const margin = ' '.repeat(indentation);
        const lines = config.split(/[\r\n]+/).map((line) => `  ${margin}${line}`);
        const block = [`  ip-masq-a: |${indentation}${header}`, ...lines].join(eol);
        const text = `apiVersion: v1\nkind: ConfigMap\ndata:\n${block}${eol}`;
        const [configFile] = read(text).configFiles;
        if (configFile === undefined) return; // characters that YAML does not take
        const inFile = mergeConfigFiles([configFile], OPTIONS).problems;
        const alone = validate(configFile.text, {}, configFile.name).problems;
        for (const [index, { at }] of alone.entries()) {
          const place = inFile[index]?.at;
          if (configFile.text.trim() === '') assert.deepEqual(place?.kind === 'file' && place.line, 4);
          else assert.equal(restOfLine(text, place), restOfLine(configFile.text, at));
        }
      }),
      { numRuns: 1000 },
    );
  });
});

/** So many blocks of code may run for a character: far fewer than a square of the length would be. */
const MOST_WORK = 100;

describe('reading a manifest', () => {
  const workOf = useWork();

  it('ends in an answer, whatever the text', () => {
    const block = 'apiVersion: v1\nkind: ConfigMap\ndata:\n  ip-masq-a: |\n   ';
    const begin = fc.constantFrom('', block, '{apiVersion: v1, kind: ConfigMap, data: ');
    fc.assert(
      fc.property(begin, almostConfig(), fc.boolean(), (before, config, inside) => {
        const text = `${before}${inside ? config.replaceAll('\n', '\n   ') : config}`;
        const manifest = readAlone({ name: 'm.yaml', text });
        for (const { place, frame } of manifest === undefined ? [] : check(text)) {
          assert.match(place, /^\d+:\d+$/);
          assert.ok(frame.split('\n').length >= 3, frame);
        }
      }),
      { numRuns: 1000 },
    );
  });

  const nested = (levels: number, level: (index: number) => string) =>
    Array.from({ length: levels }, (_, index) => level(index)).join('');
  for (const [name, text] of [
    [
      'a list of 9 levels of 9 aliases',
      `l0: &l0 {kind: ConfigMap, data: {ip-masq-a: x}}\n${nested(9, (n) => `l${n + 1}: &l${n + 1} {kind: List, items: [${Array<string>(9).fill(`*l${n}`).join()}]}\n`)}apiVersion: v1\nkind: List\nitems: [*l9]\n`,
    ],
    [
      'lists nested 900 levels deep by aliases',
      `l0: &l0 {kind: ConfigMap, data: {ip-masq-a: x}}\n${nested(900, (n) => `l${n + 1}: &l${n + 1} {kind: List, items: [*l${n}]}\n`)}apiVersion: v1\nkind: List\nitems: [*l900]\n`,
    ],
    ['2,000 broken documents', `${'x: "\n---\n'.repeat(2000)}${CONFIG_MAP}`],
    ['2,000 other ConfigMaps', `${`${configMap('other: x')}---\n`.repeat(2_000)}${CONFIG_MAP}`],
    ['20,000 keys', configMap(...Array.from({ length: 20_000 }, (_, n) => `k${n}: x`), 'ip-masq-a: x')],
    [
      'binaryData of 1 MiB',
      `apiVersion: v1\nkind: ConfigMap\nbinaryData: {ip-masq-a: ${'A'.repeat(1024 * 1024)}, ip-masq-b: YQ==}\n`,
    ],
    ['a block of 1 MiB of blanks', configMap('ip-masq-a: |', `  #${' \n  '.repeat(300_000)}`)],
  ] as const) {
    it(`needs no work that grows faster than the text: ${name}`, async () => {
      assert.equal(read(text).configFiles.length, 1);
      const file = { name: 'm.yaml', text };
      const work = await workOf({ path: 'test/unit/inputs/alone.ts', name: 'readAlone', args: [file] });
      assert.ok(work <= MOST_WORK * text.length, `${work} for ${text.length} characters`);
    });
  }
});

function read(text: string) {
  return readAlone({ name: 'm.yaml', text }) ?? assert.fail('is not a manifest');
}

function namesIn(text: string): readonly string[] {
  return namesOf(read(text).configFiles);
}

/** Each problem from top to bottom: its place, its kind and sentence, and its frame. */
function check(text: string) {
  const { configFiles, problems } = read(text);
  const checked = configFiles.flatMap((configFile) => mergeConfigFiles([configFile], OPTIONS).problems);
  const texts: readonly ConfigFile[] = [...configFiles, { name: 'm.yaml', text }];
  return [...problems, ...checked]
    .map((problem) => ({
      place: locationText(problem.at ?? assert.fail('no place')).replace(/^m\.yaml:/, ''),
      line: `${problem.kind}: ${sentence(problem)}`,
      frame: problemFramer(texts)(problem),
    }))
    .sort((a, b) => byPlace(a.place, b.place));
}

/** The text without its marks, and the line and column of the character behind each. */
function unmark(marked: string) {
  const [first = '', ...others] = marked.split('‸');
  let text = first;
  const places: string[] = [];
  for (const other of others) {
    const lines = text.split(LINE_BREAK);
    places.push(`${lines.length}:${(lines.at(-1)?.length ?? 0) + 1}`);
    text += other;
  }
  return { text, places };
}

/** The frame shows the line of the manifest, or as much of it as fits, and the caret is under the column. */
function assertFrame(place: string, frame: string, text: string): void {
  const [line = 0, column = 0] = place.split(':').map(Number);
  const [, shown = '', caret = ''] = frame.split('\n');
  const written = text.split(LINE_BREAK)[line - 1] ?? '';
  const gutter = ` ${line} | `;
  assert.ok(shown.startsWith(gutter), frame);
  assert.ok(printed(written).includes(shown.slice(gutter.length)), frame);
  const before = printed(written.slice(0, column - 1));
  assert.equal(caret.slice(gutter.length), `${' '.repeat(Math.min(before.length, 60))}^`, frame);
}

function printed(text: string): string {
  return text.replaceAll('\t', '\\x09').replaceAll('\u2028', '\\u{2028}');
}

function restOfLine(text: string, at: { readonly kind: string } | undefined): string {
  assert.ok(at !== undefined && 'line' in at && 'column' in at);
  return (text.split(LINE_BREAK)[Number(at.line) - 1] ?? '').slice(Number(at.column) - 1);
}

function byPlace(a: string, b: string): number {
  const [lineA = 0, columnA = 0] = a.split(':').map(Number);
  const [lineB = 0, columnB = 0] = b.split(':').map(Number);
  return lineA - lineB || columnA - columnB;
}

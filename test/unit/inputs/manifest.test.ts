import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type ConfigFile, LINE_BREAK } from '../../../lib/config/config-file.ts';
import { problemFramer } from '../../../lib/config/frame.ts';
import { mergeConfigFiles } from '../../../lib/config/load.ts';
import { locationText } from '../../../lib/config/problem.ts';
import { useWork } from '../../lab/work.ts';
import { almostConfig } from '../config/arbitrary.ts';
import { namesOf, OPTIONS, validate } from '../config/support.ts';
import { readAlone } from './alone.ts';

/** A ConfigMap in block style with `data` of these lines. */
function configMap(...data: readonly string[]): string {
  const head = ['apiVersion: v1', 'kind: ConfigMap', 'metadata:', '  name: ip-masq', 'data:'];
  return [...head, ...data.map((line) => `  ${line}`), ''].join('\n');
}

const CONFIG_MAP = configMap('ip-masq-a: |', '  nonMasqueradeCIDRs:', '    - 10.0.0.1/8');

describe('a place in a manifest', () => {
  for (const [name, text, expected] of [
    ['lines that end as on Windows', CONFIG_MAP.replaceAll('\n', '\r\n'), '8:9'],
    ['lines that end in a carriage return alone', CONFIG_MAP.replaceAll('\n', '\r'), '8:9'],
    [
      'a text that is larger than any ConfigMap',
      configMap('ip-masq-a: |', `  #${'é'.repeat(524_288)}`),
      '7:5',
    ],
    ['a document behind "...", which kubectl does not read', `{}\n...\n${CONFIG_MAP}`, '3:1'],
    ['a line break for kubectl alone', configMap('ip-masq-a: |', '  # x\u2028  y: 1'), '7:8'],
  ] as const)
    it(`is that of ${name}`, () => assert.equal(check(text)[0]?.place, expected));
});

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
      { numRuns: 300 },
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
      { numRuns: 300 },
    );
  });

  for (const [name, text] of [
    ['2,000 broken documents', `${'x: "\n---\n'.repeat(2000)}${CONFIG_MAP}`],
    ['20,000 keys', configMap(...Array.from({ length: 20_000 }, (_, n) => `k${n}: x`), 'ip-masq-a: x')],
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

/** Each problem: its place, and its frame. */
function check(text: string) {
  const { configFiles, problems } = read(text);
  const checked = configFiles.flatMap((configFile) => mergeConfigFiles([configFile], OPTIONS).problems);
  const texts: readonly ConfigFile[] = [...configFiles, { name: 'm.yaml', text }];
  return [...problems, ...checked].map((problem) => ({
    place: locationText(problem.at ?? assert.fail('no place')).replace(/^m\.yaml:/, ''),
    frame: problemFramer(texts)(problem),
  }));
}

function restOfLine(text: string, at: { readonly kind: string } | undefined): string {
  assert.ok(at !== undefined && 'line' in at && 'column' in at);
  return (text.split(LINE_BREAK)[Number(at.line) - 1] ?? '').slice(Number(at.column) - 1);
}

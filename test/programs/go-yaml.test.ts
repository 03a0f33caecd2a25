import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { keyName, type Node, parseYaml } from '../../lib/config/yaml.ts';
import { goEnvironment } from '../cluster/local/go.ts';
import { run, succeed } from '../lab/run.ts';
import { RUNS } from '../lab/runs.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../lab/volume.ts';
import { almostConfig } from '../unit/config/arbitrary.ts';
import { validate } from '../unit/config/support.ts';
import { readAlone } from '../unit/inputs/alone.ts';

// RUNS=25 tries some 50,000 configs and 30,000 manifests.
const CONFIGS = 2_000 * RUNS;
const MANIFESTS = 1_200 * RUNS;
const MINUTES_MS = 300_000;

/** What YAML readers may take for different things, between spaces. */
const PIECES = [
  ...String.raw`\N \_ \L \e \x85 \/ !!binary !!int !!float !!timestamp !!str !set ! &a *a <<: ? ... --- %YAML # " ' | > |+ |2- >- - : { } [ ] ,`.split(
    ' ',
  ),
  ...'0x1F 1_000 0o17 017 08 1:30 .5 +1 yes ~ = é @ ` key config ip-masq-a 10.0.0.0/8'.split(' '),
  ...[
    '\u0085',
    '\u2028',
    '\u2029',
    '\\\n',
    '\\\n  ',
    '\\\n \n ',
    '\\ ',
    '\n...\n',
    '---\n',
    '\n---\n',
    '--- ',
    '... ',
  ],
  ...['\t', '\r', '\r\n', '\n', '\n\n', ' ', '  ', ' # ', '- ', ': ', '? ', '\ufeff', '😀', '\u00a0'],
];

const CONFIG_TEXTS = [
  'nonMasqueradeCIDRs:\n  - 10.0.0.0/8 # pods\n  - "172.16.0.0/12"\nmasqLinkLocal: no\n# c\nresyncInterval: 60s\n',
  '{"nonMasqueradeCIDRs": ["10.0.0.0/8", "172.16.0.0/12"], "resyncInterval": "60s", "cidrLimit": 2}',
  'nonMasqueradeCIDRs: [ \'10.0.0.0/8\', "fd00::/8",\n  172.16.0.0/12 ]\nmasqueradeCIDRs:\n- >-\n  10.1.0.0/16\ncidrLimit: 12\n',
];

/** Those that the golden page shows. */
const PAGE = readFileSync(join(import.meta.dirname, '../golden/files/manifests.md'), 'utf8');
const MANIFEST_TEXTS = Array.from(PAGE.matchAll(/^```yaml m\.yaml\n(.*?)^```$/gms), ([, text = '']) => text)
  // A workload decides what is mounted.
  .filter((text) => text.length < 1_500 && !text.includes('volume'));

function edited(texts: readonly string[]): fc.Arbitrary<string> {
  const edit = fc.tuple(fc.nat(2_000), fc.nat(3), fc.option(fc.constantFrom(...PIECES)));
  return fc
    .tuple(fc.constantFrom(...texts), fc.array(edit, { minLength: 1, maxLength: 3 }))
    .map(([text, edits]) =>
      edits.reduce((all, [at, removed, added]) => {
        const index = at % (all.length + 1);
        return `${all.slice(0, index)}${added ?? ''}${all.slice(index + removed)}`;
      }, text),
    );
}

const MODULE = join(import.meta.dirname, 'go-yaml');
const go = (...args: readonly string[]) =>
  run({ file: 'go', args: ['-C', MODULE, ...args] }, goEnvironment(), { timeoutMs: MINUTES_MS });
const downloaded = await go('mod', 'download').catch(() => undefined);
const skip = downloaded?.code !== 0 && 'skipped: there is no Go, or its modules cannot be downloaded';

describe('the YAML reader of Kubernetes and of the Go agents', { skip }, () => {
  let directory: TemporaryDirectory;
  before(async () => {
    directory = await temporaryDirectory();
    await succeed(go('build', '-o', join(directory.path, 'reader')));
  });
  after(() => directory[Symbol.asyncDispose]());

  /** The texts, and what Go reads of each. */
  async function readByGo(anyText: fc.Arbitrary<string>, numRuns: number, isManifest: boolean) {
    // For kubectl, two carriage returns and a line feed end one line, and no blank line: that changes no config.
    const texts = fc
      .sample(anyText, numRuns)
      .filter((text) => text.isWellFormed() && !/\0|^\ufeff|\r\r\n/.test(text));
    const input = texts.map((text) => JSON.stringify({ isManifest, text })).join('\n');
    const file = join(directory.path, 'reader');
    const output = await succeed(run({ file, args: [] }, {}, { input, timeoutMs: MINUTES_MS }));
    const readings = output
      .trimEnd()
      .split('\n')
      .map((line): Reading => JSON.parse(line));
    assert.equal(readings.length, texts.length);
    return texts.map((text, index) => ({ text, ...readings[index] }));
  }

  it('finds the same values in each valid config', async () => {
    let compared = 0;
    for (const { text, value } of await readByGo(
      fc.oneof(almostConfig(), edited(CONFIG_TEXTS)),
      CONFIGS,
      false,
    )) {
      if (!isMap(value) || validate(text).problems.some(({ severity }) => severity === 'error')) continue;
      compared += 1;
      assert.deepEqual(plain(parseYaml(text)), value, JSON.stringify(text));
    }
    assert.ok(compared > CONFIGS / 100, `only ${compared} are valid`);
  });

  it('finds the same config files in each manifest without an error', async () => {
    let compared = 0;
    for (const { text, value, error } of await readByGo(edited(MANIFEST_TEXTS), MANIFESTS, true)) {
      const { configFiles, problems } = readAlone({ name: 'm.yaml', text }) ?? {
        configFiles: [],
        problems: [],
      };
      if (
        error !== undefined ||
        configFiles.length === 0 ||
        problems.some(({ severity }) => severity === 'error')
      )
        continue;
      compared += 1;
      const found = configFiles.map(({ name, text }) => `${name}: ${text}`);
      assert.deepEqual(
        found.toSorted(),
        (value as KubernetesObject[]).flatMap((one) => configFilesOf(one)).toSorted(),
        JSON.stringify(text),
      );
    }
    assert.ok(compared > MANIFESTS / 20, `only ${compared} have no error`);
  });
});

interface Reading {
  readonly value: unknown;
  /** Undefined unless Go refuses the text. */
  readonly error?: string;
}

interface KubernetesObject {
  readonly kind?: string | null;
  readonly data?: Readonly<Record<string, unknown>> | null;
  readonly binaryData?: Readonly<Record<string, string>> | null;
  readonly items?: readonly (KubernetesObject | null)[] | null;
}

/** @param inherited the kind that a list of objects says */
function configFilesOf(object: KubernetesObject | null, inherited = ''): readonly string[] {
  const { data, binaryData, items } = object ?? {};
  const kind = object?.kind ?? inherited;
  if (kind.endsWith('List'))
    return (items ?? []).flatMap((item) => configFilesOf(item, kind.slice(0, -'List'.length)));
  if (kind !== 'ConfigMap') return [];
  const decoded = Object.entries(binaryData ?? {}).map(([name, text]) => [
    name,
    Buffer.from(text, 'base64').toString(),
  ]);
  return [...Object.entries(data ?? {}), ...decoded]
    .filter(([name]) => String(name).startsWith('ip-masq-'))
    .map(([name, text]) => `${name}: ${String(text ?? '').replace(/^\uFEFF/, '')}`);
}

function isMap(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function plain(node: Node | undefined): unknown {
  if (node === undefined) return null;
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(plain);
  return Object.fromEntries(node.pairs.map(({ key, value }) => [keyName(key), plain(value)]));
}

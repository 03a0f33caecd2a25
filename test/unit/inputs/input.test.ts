import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, symlink, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { formatProblem } from '../../../lib/config/problem.ts';
import type { Inputs } from '../../../lib/inputs/file.ts';
import { readInputs, sameNames } from '../../../lib/inputs/input.ts';
import { startGroup } from '../../lab/group.ts';
import { type Files, type TemporaryDirectory, temporaryDirectory } from '../../lab/volume.ts';

const CONFIG = 'nonMasqueradeCIDRs: [10.0.0.0/8]\n';

function manifest(...keys: readonly string[]): string {
  return `apiVersion: v1\nkind: ConfigMap\ndata:\n${keys.map((key) => `  ${key}: "masqLinkLocal: true"\n`).join('')}`;
}

const UNREADABLE = 'name a file or directory that is there and readable';

interface Case {
  readonly files?: Files;
  /** DIR stands for the scratch directory. */
  readonly paths: readonly string[];
  readonly recursive?: boolean;
  /** Each as FILE:NAME, in their order. */
  readonly configFiles?: readonly string[];
  readonly problems?: readonly string[];
}

const CASES: Readonly<Record<string, Case>> = {
  'of a directory of manifests, those with ConfigMaps for the agent are read': {
    files: {
      'c/ip-masq-a': CONFIG,
      'c/ip-masq-agent.yaml': manifest('ip-masq-b'),
      'c/ip-masq.yml': manifest('ip-masq-c'),
      'c/list.json': `{"apiVersion": "v1", "kind": "ConfigMap", "data": {"ip-masq-d": "a: 1"}}`,
      'c/chart.yaml': 'apiVersion: v1\nkind: {{ .Values.kind }}\n  - "',
      'c/values.yaml': 'ip-masq-a: "',
      'c/a.json': Buffer.from('7fff', 'hex'),
      'c/README.md': manifest('ip-masq-e'),
    },
    paths: ['DIR/c'],
    configFiles: [
      'DIR/c/ip-masq-a:ip-masq-a',
      'DIR/c/ip-masq-agent.yaml:ip-masq-b',
      'DIR/c/ip-masq.yml:ip-masq-c',
      'DIR/c/list.json:ip-masq-d',
    ],
  },
  'a broken file of a directory is named with the directory': {
    files: { 'c/d/ip-masq-a': 'a\n\0' },
    paths: ['DIR/c'],
    recursive: true,
    problems: ['DIR/c/d/ip-masq-a:2:1: error: has a NUL byte; save the file as plain text'],
  },
  'a config is not larger than the agent takes': {
    files: {
      a: `${CONFIG}#${'x'.repeat(1024 * 1024)}`,
      b: `${CONFIG}#${'x'.repeat(1024 * 1024 - CONFIG.length - 1)}`,
    },
    paths: ['DIR/a', 'DIR/b'],
    configFiles: ['DIR/b:b'],
    problems: ['DIR/a: error: is larger than 1 MiB (1048610 bytes); split it, or use wider CIDRs'],
  },
};

describe('reading inputs', () => {
  let scratch: TemporaryDirectory;
  const path = (name: string) => name.replace(/^DIR(?=\/|$)/, scratch.path);
  const shown = (text: string) => text.replaceAll(scratch.path, 'DIR');

  beforeEach(async () => {
    scratch = await temporaryDirectory();
  });
  afterEach(() => scratch[Symbol.asyncDispose]());

  /** What is found, as a case has it. */
  async function read(paths: readonly string[], stdin?: AsyncIterable<Buffer>, recursive = false) {
    let calls = 0;
    const askedOnce = () => {
      calls += 1;
      return stdin ?? assert.fail('nobody asked for standard input');
    };
    const inputs = await readInputs(paths.map(path), askedOnce, recursive);
    assert.ok(calls <= 1);
    return told({ ...inputs, problems: [...inputs.problems, ...sameNames(inputs.configFiles)] });
  }

  function told({ configFiles, problems }: Pick<Inputs, 'configFiles' | 'problems'>) {
    return {
      configFiles: configFiles.map(({ name, embeddedIn }) => shown(`${embeddedIn?.file.name}:${name}`)),
      problems: problems.map((problem) => shown(formatProblem(problem))),
    };
  }

  async function write(files: Files): Promise<void> {
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(scratch.path, name)), { recursive: true });
      await writeFile(join(scratch.path, name), content);
    }
  }

  for (const [name, one] of Object.entries(CASES)) {
    const { files = {}, paths, recursive, configFiles = [], problems = [] } = one;
    it(name, async () => {
      await write(files);
      assert.deepEqual(await read(paths, undefined, recursive), { configFiles, problems });
    });
  }

  it('leaves out what leads out of a directory, waits for no pipe, and goes in no circle', async () => {
    await write({ 'c/d/m.yaml': manifest('ip-masq-a'), 'out.yaml': manifest('ip-masq-b') });
    execFileSync('mkfifo', [path('DIR/c/pipe.yaml')]);
    for (const [name, target] of [
      ['again.yaml', 'd/m.yaml'],
      ['circle', '.'],
      ['null.json', '/dev/null'],
      ['nowhere.yaml', 'nothing'],
      ['out.yaml', '../out.yaml'],
    ] as const)
      await symlink(target, path(`DIR/c/${name}`));
    const itself = 'name it itself, or remove it';
    assert.deepEqual(await read(['DIR/c'], undefined, true), {
      configFiles: ['DIR/c/again.yaml:ip-masq-a'],
      problems: [
        `DIR/c/nowhere.yaml: error: cannot be read: ENOENT: no such file or directory, open 'DIR/c/nowhere.yaml'; ${UNREADABLE}`,
        `DIR/c/null.json: warning: is not a regular file, and is not read; ${itself}`,
        `DIR/c/out.yaml: warning: is a link that leads out of the directory, and is not read; ${itself}`,
        `DIR/c/pipe.yaml: warning: is not a regular file, and is not read; ${itself}`,
      ],
    });
  });

  it('reads an open pipe to its end', async () => {
    await write({ m: manifest('ip-masq-a') });
    // As `<(…)` in bash does.
    const line = 'cat "$0" | sh -c \'echo $$; exec sleep 60\'';
    await using shell = await startGroup('sh', ['-c', line, path('DIR/m')]);
    const [pid] = await once(shell.child.stdout ?? assert.fail(), 'data');
    const name = `/proc/${String(pid).trim()}/fd/0`;
    assert.deepEqual(await read([name]), { configFiles: [`${name}:ip-masq-a`], problems: [] });
  });

  it('reads no more than it may of what never ends', async () => {
    let read64 = 0;
    const endless = (async function* () {
      for (; read64 < 200; read64 += 1) yield Buffer.alloc(1024 * 1024, '#');
    })();
    const problems = ['larger than 64 MiB; check fewer manifests at once'];
    assert.deepEqual((await read(['-'], endless)).problems, [`standard input: error: is ${problems}`]);
    assert.equal(read64, 64);
    await writeFile(path('DIR/huge'), '');
    await truncate(path('DIR/huge'), 2 ** 40);
    assert.deepEqual((await read(['DIR/huge', '/dev/zero'])).problems, [
      `DIR/huge: error: is ${problems}`,
      `/dev/zero: error: is ${problems}`,
    ]);
  });
});

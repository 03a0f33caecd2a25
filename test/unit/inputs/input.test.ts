import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, symlink, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { formatProblem } from '../../../lib/config/problem.ts';
import { readTree, WalkLimits } from '../../../lib/inputs/directory.ts';
import type { Inputs } from '../../../lib/inputs/file.ts';
import { readAgentInputs, readInputs, sameNames } from '../../../lib/inputs/input.ts';
import { startGroup } from '../../lab/group.ts';
import { asNobody } from '../../lab/user.ts';
import {
  type Files,
  ProjectedVolume,
  type TemporaryDirectory,
  temporaryDirectory,
} from '../../lab/volume.ts';

const CONFIG = 'nonMasqueradeCIDRs: [10.0.0.0/8]\n';

function manifest(...keys: readonly string[]): string {
  return `apiVersion: v1\nkind: ConfigMap\ndata:\n${keys.map((key) => `  ${key}: "masqLinkLocal: true"\n`).join('')}`;
}

const NOTHING = (paths: string) =>
  `error: no config file in ${paths}: nothing was checked; name a config file, or a manifest with a ConfigMap that has a key beginning with ip-masq-`;
const SAME_NAME = (at: string, other: string) =>
  `${at}: error: two config files are named ip-masq-a, of which a volume can hold one (the other: ${other}); rename one; or, if they are meant for different nodes, check them one by one`;
const UNREADABLE = 'name a file or directory that is there and readable';

interface Case {
  readonly files?: Files;
  /** DIR stands for the scratch directory. */
  readonly paths: readonly string[];
  readonly recursive?: boolean;
  readonly stdin?: string;
  /** Each as FILE:NAME, in their order. */
  readonly configFiles?: readonly string[];
  readonly problems?: readonly string[];
}

const CASES: Readonly<Record<string, Case>> = {
  'a directory is read as the agent reads it': {
    files: {
      'c/ip-masq-b': CONFIG,
      'c/ip-masq-a': CONFIG,
      'c/ip-masq.yaml': CONFIG,
      'c/other': '',
      'c/ip-masq-c/d': CONFIG,
    },
    paths: ['DIR/c'],
    configFiles: ['DIR/c/ip-masq-a:ip-masq-a', 'DIR/c/ip-masq-b:ip-masq-b'],
    problems: [
      'DIR/c/ip-masq-c: error: is not a regular file; remove it, or mount a file in its place',
      'DIR/c/ip-masq.yaml: warning: is not read: the name of a config file begins with ip-masq-; rename it',
    ],
  },
  'a directory without a config file is nothing to check': {
    files: {
      'c/other': '',
      'c/.d/ip-masq-a': CONFIG,
      'c/a.yaml': CONFIG,
      'c/.b.yaml': manifest('ip-masq-b'),
    },
    paths: ['DIR/c'],
    problems: [NOTHING('DIR/c')],
  },
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
  'a directory and those in it are read, even if they are named as a config file is': {
    files: {
      'c/m.yaml': manifest('ip-masq-a'),
      'c/ip-masq-agent/base/ip-masq-b': CONFIG,
      'c/ip-masq-agent/.git/ip-masq-c': CONFIG,
      'c/ip-masq-agent/m.yaml': manifest('ip-masq-d'),
    },
    paths: ['DIR/c'],
    recursive: true,
    configFiles: [
      'DIR/c/m.yaml:ip-masq-a',
      'DIR/c/ip-masq-agent/base/ip-masq-b:ip-masq-b',
      'DIR/c/ip-masq-agent/m.yaml:ip-masq-d',
    ],
  },
  'a directory is read 32 levels deep': {
    files: { [`c${'/d'.repeat(32)}/ip-masq-a`]: CONFIG, [`c${'/d'.repeat(33)}/ip-masq-b`]: CONFIG },
    paths: ['DIR/c'],
    recursive: true,
    configFiles: [`DIR/c${'/d'.repeat(32)}/ip-masq-a:ip-masq-a`],
    problems: [
      `DIR/c${'/d'.repeat(33)}: error: is more than 32 directories deep, and is not read; name it itself`,
    ],
  },
  'a broken file of a directory is named with the directory': {
    files: { 'c/ip-masq-a': 'a\n\0' },
    paths: ['DIR/c'],
    problems: ['DIR/c/ip-masq-a:2:1: error: has a NUL byte; save the file as plain text'],
  },
  'a file is a config file of its name, whatever that is': {
    files: { 'ip-masq-b': CONFIG, 'a.yaml': CONFIG },
    paths: ['DIR/ip-masq-b', 'DIR/a.yaml'],
    configFiles: ['DIR/a.yaml:a.yaml', 'DIR/ip-masq-b:ip-masq-b'],
  },
  'config files of all paths are in the order of their names': {
    files: {
      'm.yaml': manifest('ip-masq-d', 'ip-masq-b', 'ip-masq-Z'),
      'c/ip-masq-c': CONFIG,
      'ip-masq-a': CONFIG,
    },
    paths: ['DIR/m.yaml', 'DIR/c', 'DIR/ip-masq-a', '-'],
    stdin: manifest('ip-masq-ab'),
    configFiles: [
      'DIR/m.yaml:ip-masq-Z',
      'DIR/ip-masq-a:ip-masq-a',
      'standard input:ip-masq-ab',
      'DIR/m.yaml:ip-masq-b',
      'DIR/c/ip-masq-c:ip-masq-c',
      'DIR/m.yaml:ip-masq-d',
    ],
  },
  'a path counts once, however often and in however many ways it is written': {
    files: { 'c/ip-masq-a': CONFIG, 'c/n.yaml': manifest('ip-masq-d'), 'm.yaml': manifest('ip-masq-b') },
    paths: [
      ...['DIR/c', 'DIR/c/', 'DIR/c/ip-masq-a', 'DIR/c/n.yaml', 'DIR/./m.yaml', 'DIR/c/../m.yaml'],
      ...['-', '-'],
    ],
    stdin: manifest('ip-masq-c'),
    configFiles: [
      'DIR/c/ip-masq-a:ip-masq-a',
      'DIR/m.yaml:ip-masq-b',
      'standard input:ip-masq-c',
      'DIR/c/n.yaml:ip-masq-d',
    ],
  },
  'two config files of one name are an error': {
    files: { 'a/ip-masq-a': CONFIG, 'm.yaml': `${manifest('ip-masq-a')}---\n${manifest('ip-masq-a')}` },
    paths: ['DIR/a', 'DIR/m.yaml'],
    configFiles: ['DIR/a/ip-masq-a:ip-masq-a', 'DIR/m.yaml:ip-masq-a', 'DIR/m.yaml:ip-masq-a'],
    problems: [
      SAME_NAME('DIR/m.yaml:4:14', 'DIR/a/ip-masq-a:1:1'),
      SAME_NAME('DIR/m.yaml:9:14', 'DIR/m.yaml:4:14'),
    ],
  },
  'nothing to check is an error': {
    files: {
      'a.yaml': 'apiVersion: v1\nkind: Secret\ndata: {ip-masq-a: YQ==}\n',
      'b.yaml': manifest('other'),
    },
    paths: ['DIR/a.yaml', 'DIR/b.yaml'],
    problems: [NOTHING('DIR/a.yaml, DIR/b.yaml')],
  },
  'a missing file is an error, and hides no other': {
    files: { a: CONFIG },
    paths: ['DIR/\u001b[2J', 'DIR/a'],
    configFiles: ['DIR/a:a'],
    problems: [
      `DIR/\\x1b[2J: error: cannot be read: ENOENT: no such file or directory, stat 'DIR/\\x1b[2J'; ${UNREADABLE}`,
    ],
  },
  'a binary file is an error': {
    files: { a: Buffer.from('7f454c460a00ff', 'hex'), b: Buffer.from('fffe6100', 'hex') },
    paths: ['DIR/a', 'DIR/b'],
    problems: [
      'DIR/a:2:2: error: has a byte that is not UTF-8; save the file as UTF-8',
      'DIR/b:1:1: error: is UTF-16, not UTF-8; save it as UTF-8',
    ],
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
  'a manifest may be larger than a config': {
    files: { a: `${manifest('ip-masq-a')}# ${'x'.repeat(1024 * 1024)}\n` },
    paths: ['DIR/a'],
    configFiles: ['DIR/a:ip-masq-a'],
  },
  'a large manifest that is no YAML is still one': {
    files: { a: `# ${'x'.repeat(1024 * 1024)}\napiVersion: v1\ndata: "` },
    paths: ['DIR/a'],
    problems: [
      'DIR/a:3:8: error: is not valid YAML: unexpected end of the stream within a double quoted scalar; close the bracket or quote; the file may be cut off',
    ],
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
    const { files = {}, paths, recursive, stdin, configFiles = [], problems = [] } = one;
    it(name, async () => {
      await write(files);
      const input = stdin === undefined ? undefined : chunks(Buffer.from(stdin));
      assert.deepEqual(await read(paths, input, recursive), { configFiles, problems });
    });
  }

  for (const [what, limits, read, message] of [
    ['entries', { entries: 3 }, [], 'has more than 100,000 files and directories'],
    ['bytes', { bytes: 80 }, ['DIR/c/a.yaml'], 'has more than 64 MiB of manifests'],
  ] as const) {
    it(`stops in directories with too many ${what}`, async () => {
      await write({ 'c/a.yaml': manifest('ip-masq-a'), 'c/d/b.yaml': manifest('ip-masq-b'), 'c/d/e/f': '' });
      const walk = Object.assign(new WalkLimits(), limits);
      const { manifests, problems } = await readTree(path('DIR/c'), true, walk);
      assert.deepEqual(
        manifests.map(({ file }) => shown(file.name)),
        read,
      );
      assert.deepEqual(told({ configFiles: [], problems }), {
        configFiles: [],
        problems: [`DIR/c: error: ${message}; name the directories in it that hold the manifests`],
      });
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
    const itself = 'name it itself, if it is a manifest';
    assert.deepEqual(await read(['DIR/c'], undefined, true), {
      configFiles: ['DIR/c/again.yaml:ip-masq-a'],
      problems: [
        `DIR/c/nowhere.yaml: error: cannot be read: ENOENT: no such file or directory, stat 'DIR/c/nowhere.yaml'; ${UNREADABLE}`,
        `DIR/c/null.json: warning: is not a regular file, and is not read; ${itself}`,
        `DIR/c/out.yaml: warning: is a link that leads out of the directory, and is not read; ${itself}`,
        `DIR/c/pipe.yaml: warning: is not a regular file, and is not read; ${itself}`,
      ],
    });
  });

  for (const [name, files, problems] of [
    ['nothing', { 'c/other': '' }, []],
    [
      'a directory',
      { 'c/d/ip-masq-a': CONFIG },
      [
        'DIR/c: error: has no config file, but "d", which the agent does not read: nothing was checked; check its manifests with: check -R DIR/c',
      ],
    ],
    ['a config file beside a manifest', { 'c/ip-masq-a': CONFIG, 'c/m.yaml': manifest('ip-masq-b') }, []],
  ] as const) {
    it(`reads a config directory with ${name} as the agent does`, async () => {
      await write(files);
      const configFiles = 'c/ip-masq-a' in files ? ['DIR/c/ip-masq-a:ip-masq-a'] : [];
      assert.deepEqual(told(await readAgentInputs(path('DIR/c'))), { configFiles, problems });
    });
  }

  it('reads a projected volume, and calls its files by their visible paths', async () => {
    await ProjectedVolume.create(path('DIR/volume'), { 'ip-masq-a': CONFIG, 'ip-masq': CONFIG });
    assert.deepEqual(await read(['DIR/volume']), {
      configFiles: ['DIR/volume/ip-masq-a:ip-masq-a'],
      problems: [
        'DIR/volume/ip-masq: warning: is not read: the name of a config file begins with ip-masq-; rename it',
      ],
    });
  });

  it('reads a file that is a link out of its directory, which is nobody’s volume', async () => {
    await write({ 'a/b': manifest('ip-masq-a') });
    await symlink('a/b', path('DIR/link'));
    assert.deepEqual(await read(['DIR/link']), { configFiles: ['DIR/link:ip-masq-a'], problems: [] });
  });

  it('reads an open pipe to its end, and does not wait for one that nobody writes to', async () => {
    execFileSync('mkfifo', [path('DIR/pipe')]);
    const { problems } = await read(['DIR/pipe']);
    const found = problems.map((text) => text.replace(/;.*/, ''));
    assert.deepEqual(found, ['DIR/pipe: error: is not a file']);
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

  it('says of what it has no right to read that it cannot be read', async () => {
    await write({ a: CONFIG, 'c/ip-masq-a': CONFIG });
    await chmod(path('DIR/a'), 0);
    await chmod(path('DIR/c'), 0);
    const { problems } = await asNobody(() => read(['DIR/a', 'DIR/c']));
    assert.deepEqual(problems, [
      `DIR/a: error: cannot be read: EACCES: permission denied, open 'DIR/a'; ${UNREADABLE}`,
      `DIR/c: error: cannot be read: EACCES: permission denied, opendir 'DIR/c'; ${UNREADABLE}`,
    ]);
    await chmod(path('DIR/c'), 0o755);
  });

  it('says of standard input that fails that it cannot be read', async () => {
    const failing = (async function* () {
      yield Buffer.from(CONFIG);
      throw Object.assign(new Error('EISDIR: illegal operation on a directory, read'), { code: 'EISDIR' });
    })();
    assert.deepEqual((await read(['-'], failing)).problems, [
      `standard input: error: cannot be read: EISDIR: illegal operation on a directory, read; ${UNREADABLE}`,
    ]);
  });
});

async function* chunks(bytes = Buffer.alloc(0)): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7);
}

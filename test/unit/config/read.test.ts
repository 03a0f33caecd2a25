import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs, { appendFileSync } from 'node:fs';
import { chmod, mkdir, readdir, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { describe, it, mock } from 'node:test';
import { setImmediate as breathe } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { isConfigFileName } from '../../../lib/config/config-file.ts';
import { formatProblem } from '../../../lib/config/problem.ts';
import { readVolumeVersion } from '../../../lib/config/read.ts';
import { runWithFewFiles } from '../../lab/few-files.ts';
import { asNobody } from '../../lab/user.ts';
import type { ProjectedVolume } from '../../lab/volume.ts';
import { directoryOf, volumeOf } from './support.ts';
import { type Swapping, versionFiles } from './swapper.ts';

const MIB = 2 ** 20;
const MOUNT = 'mount the volume there, or name the right directory with --config-dir';
const RESTART =
  'delete the pod, so that kubelet mounts the volume anew; a container that starts on the empty directory would apply the defaults';
const NOT_REGULAR = 'is not a regular file; remove it, or mount a file in its place';
const LEADS_OUT = 'is a link that leads out of the config directory; mount the file itself';
const READABLE = 'make it readable for the agent';
const NO_CONFIG_FILE = 'is not read: the name of a config file begins with ip-masq-; rename it';
const MISSING = `error: config directory DIR is missing or not a directory; ${MOUNT}`;
const tooLarge = (bytes: number) => `is larger than 1 MiB (${bytes} bytes); split it, or use wider CIDRs`;
const broken = (how: string) =>
  `error: ..data ${how} config directory DIR: the projected volume is broken; ${RESTART}`;

describe('a plain directory', () => {
  it('is read as it is', async () => {
    const others = { 'IP-MASQ-A': '', '.ip-masq-a': '', 'xip-masq-a': '', '!ip-masq-a': '' };
    await using directory = await directoryOf({ 'ip-masq-b': 'é', 'ip-masq-a': 'a: 1\n', ...others });
    assert.deepEqual(await readVolumeVersion(directory.path, false), {
      id: undefined,
      configFiles: [
        { name: 'ip-masq-a', text: 'a: 1\n' },
        { name: 'ip-masq-b', text: 'é' },
      ],
      problems: [],
    });
  });

  it('may be empty, have any name and a slash behind it, and be reached through a link', async () => {
    await using outer = await directoryOf({});
    assert.deepEqual(await read(outer.path), { files: [], lines: [] });
    const dir = join(outer.path, '{a,b}[c]*?(d)!');
    await mkdir(dir);
    await writeFile(join(dir, 'ip-masq-a'), 'a');
    await symlink(dir, join(outer.path, 'link'));
    for (const path of [dir, `${dir}/`, join(outer.path, 'link')])
      assert.deepEqual(await read(path), { files: [['ip-masq-a', 'a']], lines: [] }, path);
  });

  it('is not taken for an empty one if it goes while it is read', async (t) => {
    await using outer = await directoryOf({});
    const dir = join(outer.path, 'gone');
    t.mock.method(fs.realpathSync, 'native', () => dir, { times: 1 });
    const { configFiles, problems } = await readVolumeVersion(dir, false);
    assert.deepEqual([configFiles, problems.map(({ kind }) => kind)], [[], ['unreadable']]);
  });

  it('may link a config file to another file in it', async () => {
    await using directory = await directoryOf({ real: 'a: 1' });
    await symlink('real', join(directory.path, 'ip-masq-a'));
    assert.deepEqual(await read(directory.path), { files: [['ip-masq-a', 'a: 1']], lines: [] });
  });
});

describe('a projected volume', () => {
  it('is read from the volume version that ..data names, which identifies it', async () => {
    await using directory = await volumeOf({ 'ip-masq-b': '2', 'ip-masq-a': '1', other: '' });
    const { id } = await readVolumeVersion(directory.path, false);
    assert.equal(id, await readlink(join(directory.path, '..data')));
    const files = [
      ['ip-masq-a', '1'],
      ['ip-masq-b', '2'],
    ];
    assert.deepEqual(await read(directory.path), { files, lines: [] });
    await directory.volume.swap({ 'ip-masq-c': '3' });
    assert.notEqual((await readVolumeVersion(directory.path, true)).id, id);
    assert.deepEqual(await read(directory.path, true), { files: [['ip-masq-c', '3']], lines: [] });
  });

  it('is read together with what else stands beside ..data', async () => {
    await using directory = await volumeOf({ 'ip-masq-b': 'b' });
    await writeFile(join(directory.path, 'ip-masq-a'), 'a');
    await symlink('nowhere', join(directory.path, 'ip-masq-c'));
    const files = ['a', 'b'].map((text) => [`ip-masq-${text}`, text]);
    const lines = ['ip-masq-c: error: is a link to nothing; remove it, or mount the file it names'];
    assert.deepEqual(await read(directory.path, true), { files, lines });
  });

  it('never yields a mix of two volume versions, over hundreds of swaps', async () => {
    await using directory = await volumeOf(versionFiles(0));
    await using _ = swapper(directory.path, 'swaps');
    const seen = new Set<string>();
    while (seen.size < 150) {
      const { files, lines } = await read(directory.path, true);
      const number = files[0]?.[1].trim() ?? '';
      const expected = Object.entries(versionFiles(Number(number))).filter(([name]) =>
        isConfigFileName(name),
      );
      assert.deepEqual({ files, lines }, { files: expected, lines: [] });
      seen.add(number);
      await breathe();
    }
  });

  it('is never read in part, however slowly an old volume version goes away', async () => {
    await using directory = await directoryOf({});
    await using _ = swapper(directory.path, 'slow-removal');
    const seen = new Set<string>();
    while (seen.size < 75) {
      const { id, configFiles, problems } = await readVolumeVersion(directory.path, false);
      const text = id?.slice('..'.length);
      const whole = text === undefined ? [] : ['ip-masq-a', 'ip-masq-b'].map((name) => ({ name, text }));
      assert.deepEqual([configFiles, problems.map(formatProblem)], [whole, []]);
      seen.add(text ?? '');
      await breathe();
    }
  });
});

describe('a config directory is an error', () => {
  const cases: Readonly<Record<string, readonly [prepare: (dir: string) => Promise<unknown>, line: string]>> =
    {
      'where it is missing': [removed, MISSING],
      'where it is a file': [(dir) => removed(dir).then(() => writeFile(dir, '')), MISSING],
      'where ..data leads nowhere': [dataTo('..2026_01_31'), broken('leads to no directory in')],
      'where ..data leads out of it, though nothing is there': [
        async (dir) => {
          await mkdir(`${dir}-outside`);
          await dataTo('../config-outside')(dir);
        },
        broken('leads out of'),
      ],
      'where ..data leads to the directory itself': [dataTo('.'), broken('leads out of')],
      'where ..data is no link': [
        (dir) => mkdir(join(dir, '..data')),
        `error: config directory DIR cannot be read: EINVAL: invalid argument, readlink 'DIR/..data'; ${MOUNT}`,
      ],
      'where the agent may not read it': [
        (dir) => chmod(dir, 0),
        `error: config directory DIR cannot be read: EACCES: permission denied, readlink 'DIR/..data'; ${MOUNT}`,
      ],
    };
  for (const [name, [prepare, line]] of Object.entries(cases)) {
    it(name, async () => {
      await using directory = await directoryOf({});
      await prepare(directory.path);
      assert.deepEqual(await asNobody(() => read(directory.path)), { files: [], lines: [line] });
      await chmod(directory.path, 0o755).catch(() => {}); // else only root could remove it
    });
  }

  for (const [name, prepare] of Object.entries({
    'and the visible links stay': (volume: ProjectedVolume) => volume.loseData(),
    'and all else with it': ({ dir }: ProjectedVolume) => emptyOut(dir),
    'and the directory with it': ({ dir }: ProjectedVolume) => removed(dir),
  })) {
    it(`where ..data is gone since the last read, ${name}`, async () => {
      await using directory = await volumeOf({ 'ip-masq-a': '{}' });
      await prepare(directory.volume);
      assert.deepEqual((await read(directory.path, true)).lines, [broken('is gone from')]);
    });
  }
});

describe('config files', () => {
  it('come in byte order of their names, as UTF-8 has it, not UTF-16', async () => {
    const ordered = ['', 'A', 'a', 'a-b', 'aa', 'é', '\uff5e', '😀'].map((end) => `ip-masq-${end}`);
    const files = Object.fromEntries(ordered.toReversed().map((name) => [name, '']));
    for (const make of [directoryOf, volumeOf]) {
      await using directory = await make(files);
      assert.deepEqual(
        (await read(directory.path)).files,
        ordered.map((name) => [name, '']),
      );
    }
  });

  it('are missed with a warning where ip-masq-agent-v2 would have read them', async () => {
    await using directory = await volumeOf({ 'ip-masq': '[', 'ip-masq.yaml': '[', 'ip-masq-a': '' });
    assert.deepEqual(await read(directory.path), {
      files: [['ip-masq-a', '']],
      lines: [`ip-masq: warning: ${NO_CONFIG_FILE}`, `ip-masq.yaml: warning: ${NO_CONFIG_FILE}`],
    });
  });

  for (const end of [
    ...['', 'a b ', '.hidden', 'a\nERROR: forged', '\u001b[31mred', '"a"\'b\'`c`', 'a\\b', '\\', '[a]', '*?'],
    ...['(a|b)', '.', ' ', '{a,b}', '!(x)@(y)', '$HOME;#&', '\ufffd', 'e\u0301', 'x'.repeat(247)],
  ]) {
    const name = `ip-masq-${end}`;
    it(`may be called ${JSON.stringify(name)}, in both kinds of directory`, async () => {
      assert.equal(isConfigFileName(name), true);
      await using plain = await directoryOf({ [name]: 'a: 1' });
      assert.deepEqual(await read(plain.path), { files: [[name, 'a: 1']], lines: [] });
      await using directory = await volumeOf({ [name]: 'a: 1' });
      await directory.volume.swap({ 'ip-masq-z': '' });
      await directory.volume.swap({ [name]: 'a: 2' });
      assert.deepEqual(await read(directory.path), { files: [[name, 'a: 2']], lines: [] });
    });
  }
});

describe('a config file is rejected', () => {
  const cases: Readonly<
    Record<
      string,
      readonly [prepare: (path: string, dir: string) => Promise<unknown>, line: string, at?: string]
    >
  > = {
    'where it is a directory': [(path) => mkdir(path), NOT_REGULAR],
    'where it is a FIFO': [async (path) => execFileSync('mkfifo', [path]), NOT_REGULAR],
    'where it is a device': [(path) => symlink('/dev/zero', path), NOT_REGULAR],
    'where it links out of the directory': [(path) => symlink('/etc/hostname', path), LEADS_OUT],
    'where it links to a directory whose name begins alike': [
      async (path, dir) => {
        await mkdir(`${dir}-alike`);
        await writeFile(`${dir}-alike/file`, '{}');
        await symlink(`${dir}-alike/file`, path);
      },
      LEADS_OUT,
    ],
    'where it is one byte larger than 1 MiB': [
      (path) => writeFile(path, '#'.repeat(MIB + 1)),
      tooLarge(MIB + 1),
    ],
    'where the agent may not read it': [
      (path) => writeFile(path, '{}', { mode: 0 }),
      `cannot be read: EACCES: permission denied, open 'PATH'; ${READABLE}`,
    ],
    'where it is not UTF-8': [
      (path) => writeFile(path, Buffer.from('a: 1\nb: \xff', 'latin1')),
      'has a byte that is not UTF-8; save the file as UTF-8',
      ':2:4',
    ],
  };
  for (const [name, [prepare, line, at = '']] of Object.entries(cases))
    for (const [where, make, below] of [
      ['in a plain directory', directoryOf, ''],
      ['in a volume version', volumeOf, '..data'],
    ] as const)
      it(`${name}, ${where}, and the others are read`, async () => {
        await using directory = await make({ 'ip-masq-a': '{}' });
        const version = below && (await readlink(join(directory.path, below)));
        const path = join(directory.path, version, 'ip-masq-x');
        await prepare(path, directory.path);
        const { configFiles, problems } = await asNobody(() => readVolumeVersion(directory.path, false));
        assert.deepEqual(configFiles, [{ name: 'ip-masq-a', text: '{}' }]);
        const expected = `ip-masq-x${at}: error: ${line.replace('PATH', path)}`;
        assert.deepEqual(problems.map(formatProblem), [expected]);
      });

  it('where its name is not UTF-8', async () => {
    await using directory = await directoryOf({});
    const path = Buffer.concat([Buffer.from(join(directory.path, 'ip-masq-')), Buffer.from([0xff])]);
    await writeFile(path, '{}');
    const lines = ['ip-masq-\ufffd: error: has a name that is not UTF-8; rename it'];
    assert.deepEqual(await read(directory.path), { files: [], lines });
  });

  it('in more than 1,000 config files', async () => {
    const files = Array.from({ length: 1001 }, (_, index) => [`ip-masq-${1000 + index}`, '']);
    await using directory = await directoryOf(Object.fromEntries(files));
    assert.deepEqual(await read(directory.path), {
      files: files.slice(0, 1000),
      lines: [
        'ip-masq-2000: error: is beyond the limit of 1000 config files, and is not read; join config files',
      ],
    });
  });
});

describe('what is not about the config', () => {
  it('is a lack of files, which is an error of the system', async () => {
    await using directory = await directoryOf({ 'ip-masq-a': 'a: 1\n' });
    await using agent = await runWithFewFiles(
      'lib/config/read.ts',
      `const read = () => module.readVolumeVersion(${JSON.stringify(directory.path)}, false);
      await read();
      try { for (;;) openSync('/dev/null'); } catch {}
      const error = await read().catch((error) => error);
      console.log(error.constructor.name, error.message);`,
    );
    const said = (await agent.stdout.toArray()).join('');
    assert.match(said, /^ExhaustedError cannot read the config: EMFILE.*; raise the limits/);
  });
});

describe('what changes while it is read', () => {
  it('is read again: a file that grows is never taken in part', async () => {
    await using directory = await directoryOf({ 'ip-masq-a': '#'.repeat(500_000) });
    let times = 3;
    using _ = atEachRead(() => {
      times -= 1;
      if (times >= 0) appendFileSync(join(directory.path, 'ip-masq-a'), '#');
    });
    assert.deepEqual(await read(directory.path), { files: [['ip-masq-a', '#'.repeat(500_003)]], lines: [] });
  });

  it('is whole: files replaced by renaming are old or new, and those removed are no error', async () => {
    await using directory = await directoryOf({});
    await using _ = swapper(directory.path, 'renames');
    const seen = { digits: new Set<string>(), both: 0, one: 0 };
    while (seen.digits.size < 10 || seen.both < 20 || seen.one < 20) {
      const { files, lines } = await read(directory.path);
      assert.deepEqual(lines, []);
      const [, text] = files.find(([name]) => name === 'ip-masq-a') ?? [];
      if (text !== undefined) {
        assert.match(text, /^(\d)\1{49999}$/);
        seen.digits.add(text.slice(0, 1));
        seen[files.length === 2 ? 'both' : 'one'] += 1;
      }
      await breathe();
    }
  });
});

/** Name and text of each config file, and each problem in a line, in which DIR stands for the directory. */
async function read(dir: string, projected = false) {
  const { configFiles, problems } = await readVolumeVersion(dir, projected);
  const lines = problems.map((problem) => formatProblem(problem).replaceAll(dir, 'DIR'));
  return { files: configFiles.map(({ name, text }) => [name, text] as const), lines };
}

async function removed(dir: string): Promise<void> {
  await rm(dir, { recursive: true });
}

function dataTo(target: string): (dir: string) => Promise<void> {
  return (dir) => symlink(target, join(dir, '..data'));
}

/** Changes the directory on another thread: reading blocks this one. */
function swapper(dir: string, swapping: Swapping): AsyncDisposable {
  const worker = new Worker(new URL('swapper.ts', import.meta.url), { workerData: { dir, swapping } });
  const exit = once(worker, 'exit');
  return {
    [Symbol.asyncDispose]: async () => {
      worker.postMessage('end');
      await exit;
    },
  };
}

async function emptyOut(dir: string): Promise<void> {
  for (const name of await readdir(dir)) await rm(join(dir, name), { recursive: true });
}

/** Lets something happen whenever this process begins to read from an open file. */
function atEachRead(happen: () => void): Disposable {
  const { readSync } = fs;
  const changed = (...args: unknown[]) => {
    happen();
    return Reflect.apply(readSync, fs, args);
  };
  const { mock: wrapped } = mock.method(fs, 'readSync', changed);
  syncBuiltinESMExports();
  return {
    [Symbol.dispose]: () => {
      wrapped.restore();
      syncBuiltinESMExports();
    },
  };
}

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs, { appendFileSync } from 'node:fs';
import { chmod, mkdir, readdir, readlink, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, it, mock } from 'node:test';
import { setImmediate as breathe } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { formatProblem } from '../../../lib/config/problem.ts';
import { readGeneration } from '../../../lib/config/read.ts';
import { isSourceName } from '../../../lib/config/source.ts';
import { formatOrigin } from '../../../lib/text/origin.ts';
import { runWithFewFiles } from '../../lab/few-files.ts';
import { asNobody } from '../../lab/user.ts';
import { type Files, ProjectedVolume, temporaryDirectory } from '../../lab/volume.ts';
import { UNPRINTABLE } from './support.ts';
import { generationFiles, type Swapping } from './swapper.ts';

const MIB = 2 ** 20;
const MOUNT = 'mount the volume there, or name the right directory with --config-dir';
const RESTART =
  'delete the pod, so that kubelet mounts the volume anew; a container that starts on the empty directory would apply the defaults';
const NOT_REGULAR = 'is not a regular file; remove it, or mount a file in its place';
const LEADS_OUT = 'is a link that leads out of the config directory; mount the file itself';
const READABLE = 'make it readable for the agent';
const NO_SOURCE = 'is not read: the name of a source begins with ip-masq-; rename it';
const tooLarge = (bytes: number) => `is larger than 1 MiB (${bytes} bytes); split it, or use wider CIDRs`;
const missing = (dir: string) => `error: config directory ${dir} is missing or not a directory; ${MOUNT}`;
const broken = (how: string) => `error: ..data ${how}: the projected volume is broken; ${RESTART}`;

describe('a plain directory', () => {
  it('is read as it is', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': 'a: 1\n', 'ip-masq-b': 'é' });
    assert.deepEqual(await readGeneration(volume.path, false), {
      id: undefined,
      sources: [
        { name: 'ip-masq-a', text: 'a: 1\n' },
        { name: 'ip-masq-b', text: 'é' },
      ],
      problems: [],
    });
  });

  it('may be empty, be reached through a link, and be named with a slash at the end', async () => {
    await using outer = await plainDirectory({});
    await using volume = await plainDirectory({ 'ip-masq-a': 'a' });
    assert.deepEqual(await names(outer.path), []);
    await symlink(volume.path, join(outer.path, 'link'));
    assert.deepEqual(await names(join(outer.path, 'link')), ['ip-masq-a']);
    assert.deepEqual(await names(`${volume.path}/`), ['ip-masq-a']);
  });

  it('may itself have a name full of glob metacharacters', async () => {
    await using outer = await plainDirectory({});
    const dir = join(outer.path, '{a,b}[c]*?(d)!');
    await mkdir(dir);
    await writeFile(join(dir, 'ip-masq-a'), 'a');
    assert.deepEqual(await names(dir), ['ip-masq-a']);
  });

  it('may link a source to another file in it', async () => {
    await using volume = await plainDirectory({ real: 'a: 1' });
    await symlink('real', join(volume.path, 'ip-masq-a'));
    assert.deepEqual((await readGeneration(volume.path, false)).sources, [
      { name: 'ip-masq-a', text: 'a: 1' },
    ]);
  });
});

describe('a projected volume', () => {
  it('is read from the generation that ..data names, which identifies it', async () => {
    await using directory = await temporaryDirectory();
    const volume = await ProjectedVolume.create(directory.path, {
      'ip-masq-b': '2',
      'ip-masq-a': '1',
      other: '',
    });
    const generation = await readGeneration(volume.dir, false);
    assert.deepEqual(generation, {
      id: await readlink(join(volume.dir, '..data')),
      sources: [
        { name: 'ip-masq-a', text: '1' },
        { name: 'ip-masq-b', text: '2' },
      ],
      problems: [],
    });
    await volume.swap({ 'ip-masq-c': '3' });
    const next = await readGeneration(volume.dir, true);
    assert.notEqual(next.id, generation.id);
    assert.deepEqual(next.sources, [{ name: 'ip-masq-c', text: '3' }]);
  });

  it('is read before its visible links are made, and after they have gone stale', async () => {
    await using directory = await temporaryDirectory();
    const volume = await ProjectedVolume.create(directory.path, { 'ip-masq-a': '1' });
    const generation = await readlink(join(volume.dir, '..data'));
    await writeFile(join(volume.dir, generation, 'ip-masq-b'), '2');
    await unlink(join(volume.dir, generation, 'ip-masq-a'));
    const { sources, problems } = await readGeneration(volume.dir, true);
    assert.deepEqual(sources, [{ name: 'ip-masq-b', text: '2' }]);
    assert.deepEqual(problems, []);
  });

  it('is read together with what else stands beside ..data', async () => {
    await using directory = await temporaryDirectory();
    const volume = await ProjectedVolume.create(directory.path, { 'ip-masq-b': 'b' });
    await writeFile(join(volume.dir, 'ip-masq-a'), 'a');
    await symlink('nowhere', join(volume.dir, 'ip-masq-c'));
    const { sources, problems } = await readGeneration(volume.dir, true);
    assert.deepEqual(
      sources.map(({ name }) => name),
      ['ip-masq-a', 'ip-masq-b'],
    );
    assert.deepEqual(problems.map(formatProblem), [
      'ip-masq-c: error: is a link to nothing; remove it, or mount the file it names',
    ]);
  });

  it('may hold no source, which is no error', async () => {
    await using directory = await temporaryDirectory();
    const volume = await ProjectedVolume.create(directory.path, {});
    assert.deepEqual((await readGeneration(volume.dir, true)).sources, []);
    assert.deepEqual((await readGeneration(volume.dir, true)).problems, []);
  });

  it('may name its generation by an absolute path', async () => {
    await using volume = await plainDirectory({});
    await mkdir(join(volume.path, '..1'));
    await writeFile(join(volume.path, '..1/ip-masq-a'), 'a');
    await symlink(join(volume.path, '..1'), join(volume.path, '..data'));
    assert.deepEqual(await names(volume.path), ['ip-masq-a']);
  });

  it('never yields a mix of two generations, over hundreds of swaps', { timeout: 60_000 }, async () => {
    await using directory = await temporaryDirectory();
    const volume = await ProjectedVolume.create(directory.path, generationFiles(0));
    await using _ = swapper(volume.dir, 'swaps');
    const seen = new Set<string>();
    while (seen.size < 150) {
      const { sources, problems } = await readGeneration(volume.dir, true);
      const number = sources[0]?.text.trim() ?? '';
      const expected = Object.entries(generationFiles(Number(number))).filter(([name]) => isSourceName(name));
      assert.deepEqual(problems.map(formatProblem), []);
      assert.deepEqual(
        sources.map(({ name, text }) => [name, text]),
        expected,
      );
      seen.add(number);
      await breathe();
    }
  });

  it('is never read in part, however slowly an old generation goes away', { timeout: 60_000 }, async () => {
    await using directory = await plainDirectory({});
    await using _ = swapper(directory.path, 'slow-removal');
    const seen = new Set<string>();
    while (seen.size < 75) {
      const { id, sources, problems } = await readGeneration(directory.path, false);
      assert.deepEqual(problems.map(formatProblem), []);
      const text = id?.slice('..'.length);
      assert.deepEqual(
        sources,
        text === undefined ? [] : ['ip-masq-a', 'ip-masq-b'].map((name) => ({ name, text })),
      );
      seen.add(text ?? '');
      await breathe();
    }
  });
});

describe('a config directory is an error', () => {
  const cases: Readonly<Record<string, (dir: string) => Promise<string>>> = {
    'where it is missing': async (dir) => {
      await rm(dir, { recursive: true });
      return missing(dir);
    },
    'where it is a file': async (dir) => {
      await rm(dir, { recursive: true });
      await writeFile(dir, '');
      return missing(dir);
    },
    'where it is a link to nothing': async (dir) => {
      await rm(dir, { recursive: true });
      await symlink('nowhere', dir);
      return missing(dir);
    },
    'where ..data leads nowhere': async (dir) => {
      await symlink('..2026_01_31', join(dir, '..data'));
      return broken(`leads to no directory in config directory ${dir}`);
    },
    'where ..data leads to a file': async (dir) => {
      await writeFile(join(dir, 'file'), '');
      await symlink('file', join(dir, '..data'));
      return broken(`leads to no directory in config directory ${dir}`);
    },
    'where ..data leads to itself': async (dir) => {
      await symlink('..data', join(dir, '..data'));
      return broken(`leads to no directory in config directory ${dir}`);
    },
    'where ..data leads out of it, though nothing is there': async (dir) => {
      await mkdir(`${dir}-outside`);
      await symlink(`../${dir.split('/').pop()}-outside`, join(dir, '..data'));
      return broken(`leads out of config directory ${dir}`);
    },
    'where ..data leads out of it by an absolute path': async (dir) => {
      await symlink('/', join(dir, '..data'));
      return broken(`leads out of config directory ${dir}`);
    },
    'where ..data leads to the directory itself': async (dir) => {
      await symlink('.', join(dir, '..data'));
      return broken(`leads out of config directory ${dir}`);
    },
    'where ..data is no link': async (dir) => {
      await mkdir(join(dir, '..data'));
      return `error: config directory ${dir} cannot be read: EINVAL: invalid argument, readlink '${dir}/..data'; ${MOUNT}`;
    },
  };
  for (const [name, prepare] of Object.entries(cases)) {
    it(name, { timeout: 5_000 }, async () => {
      await using outer = await temporaryDirectory();
      const dir = join(outer.path, 'config');
      await mkdir(dir);
      const line = await prepare(dir);
      const generation = await readGeneration(dir, false);
      assert.deepEqual(generation.problems.map(formatProblem), [line]);
      assert.deepEqual(generation.sources, []);
    });
  }

  for (const [name, prepare] of Object.entries({
    'and the visible links stay': (volume: ProjectedVolume) => volume.loseData(),
    'and all else with it': (volume: ProjectedVolume) => emptyOut(volume.dir),
    'and the directory with it': (volume: ProjectedVolume) => rm(volume.dir, { recursive: true }),
  })) {
    it(`where ..data is gone since the last read, ${name}`, async () => {
      await using outer = await temporaryDirectory();
      const volume = await ProjectedVolume.create(join(outer.path, 'config'), { 'ip-masq-a': '{}' });
      await prepare(volume);
      assert.deepEqual((await readGeneration(volume.dir, true)).problems.map(formatProblem), [
        broken(`is gone from config directory ${volume.dir}`),
      ]);
    });
  }

  it('that prints on one line, whatever the directory is called', async () => {
    const { problems } = await readGeneration('/nowhere\n\u001b[2K', false);
    assert.deepEqual(problems.map(formatProblem), [missing('/nowhere\\x0a\\x1b[2K')]);
  });
});

describe('sources', () => {
  it('come in byte order of their names, as UTF-8 has it, not UTF-16', async () => {
    const ordered = [
      'ip-masq-',
      'ip-masq-A',
      'ip-masq-a',
      'ip-masq-a-b',
      'ip-masq-aa',
      'ip-masq-é',
      'ip-masq-\uff5e',
      'ip-masq-😀',
    ];
    const files = Object.fromEntries(ordered.toReversed().map((name) => [name, '']));
    await using plain = await plainDirectory(files);
    assert.deepEqual(await names(plain.path), ordered);
    await using directory = await temporaryDirectory();
    const volume = await ProjectedVolume.create(directory.path, files);
    assert.deepEqual(await names(volume.dir), ordered);
  });

  it('are not what is called otherwise', async () => {
    const others = ['IP-MASQ-a', '.ip-masq-a', 'xip-masq-a', 'ip_masq_a', 'config', '..ip-masq-a'];
    for (const name of others) assert.equal(isSourceName(name), false, name);
    await using volume = await plainDirectory(Object.fromEntries(others.map((name) => [name, '['])));
    await mkdir(join(volume.path, 'below'));
    await writeFile(join(volume.path, 'below', 'ip-masq-a'), '[');
    assert.deepEqual(await names(volume.path), []);
  });

  it('are missed with a warning where ip-masq-agent-v2 would have read them', async () => {
    await using directory = await temporaryDirectory();
    const files = { 'ip-masq': '[', 'ip-masq.yaml': '[', 'ip-masq-a': '' };
    const { dir } = await ProjectedVolume.create(directory.path, files);
    const { sources, problems } = await readGeneration(dir, false);
    assert.deepEqual(
      sources.map(({ name }) => name),
      ['ip-masq-a'],
    );
    assert.deepEqual(problems.map(formatProblem), [
      `ip-masq: warning: ${NO_SOURCE}`,
      `ip-masq.yaml: warning: ${NO_SOURCE}`,
    ]);
  });

  for (const name of [
    'ip-masq-',
    'ip-masq-a b ',
    'ip-masq-.hidden',
    'ip-masq-a\nERROR: forged',
    'ip-masq-\u001b[31mred',
    'ip-masq-"a"\'b\'`c`',
    'ip-masq-a\\b',
    'ip-masq-\\',
    'ip-masq-[a]',
    'ip-masq-*?',
    'ip-masq-{a,b}',
    'ip-masq-!(x)@(y)',
    'ip-masq-$HOME;#&',
    'ip-masq-\ufffd',
    'ip-masq-e\u0301',
    `ip-masq-${'x'.repeat(247)}`,
  ]) {
    it(`may be called ${JSON.stringify(name)}, in both kinds of directory`, async () => {
      assert.equal(isSourceName(name), true);
      await using plain = await plainDirectory({ [name]: 'a: 1' });
      assert.deepEqual((await readGeneration(plain.path, false)).sources, [{ name, text: 'a: 1' }]);
      await using directory = await temporaryDirectory();
      const volume = await ProjectedVolume.create(directory.path, { [name]: 'a: 1' });
      await volume.swap({ 'ip-masq-z': '' });
      await volume.swap({ [name]: 'a: 2' });
      const { sources, problems } = await readGeneration(volume.dir, false);
      assert.deepEqual(problems, []);
      assert.deepEqual(sources, [{ name, text: 'a: 2' }]);
    });
  }

  it('may be 1 MiB long', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': '#'.repeat(MIB) });
    const { sources, problems } = await readGeneration(volume.path, false);
    assert.deepEqual(problems, []);
    assert.equal(sources[0]?.text.length, MIB);
  });
});

describe('a source is rejected', () => {
  const cases: Readonly<
    Record<string, readonly [prepare: (path: string, dir: string) => Promise<unknown>, line: string]>
  > = {
    'where it is a directory': [(path) => mkdir(path), NOT_REGULAR],
    'where it is a FIFO': [async (path) => execFileSync('mkfifo', [path]), NOT_REGULAR],
    'where it is a device': [(path) => symlink('/dev/zero', path), NOT_REGULAR],
    'where it is a link to a directory': [(path) => symlink('/etc', path), NOT_REGULAR],
    'where it links to nothing': [
      (path) => symlink('nowhere', path),
      'is a link to nothing; remove it, or mount the file it names',
    ],
    'where it links to itself': [
      (path) => symlink('ip-masq-x', path),
      `cannot be read: ELOOP: too many symbolic links encountered, open 'PATH'; ${READABLE}`,
    ],
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
    'where it is 2 MiB of text': [(path) => writeFile(path, '#'.repeat(2 * MIB)), tooLarge(2 * MIB)],
  };
  for (const [name, [prepare, line]] of Object.entries(cases)) {
    it(`${name}, the others being read`, { timeout: 5_000 }, async () => {
      await using outer = await temporaryDirectory();
      const dir = join(outer.path, 'config');
      await mkdir(dir);
      await writeFile(join(dir, 'ip-masq-a'), '{}');
      const path = join(dir, 'ip-masq-x');
      await prepare(path, dir);
      const { sources, problems } = await readGeneration(dir, false);
      assert.deepEqual(sources, [{ name: 'ip-masq-a', text: '{}' }]);
      assert.deepEqual(problems.map(formatProblem), [`ip-masq-x: error: ${line.replace('PATH', path)}`]);
    });

    it(`${name}, also within a generation`, { timeout: 5_000 }, async () => {
      await using outer = await temporaryDirectory();
      const volume = await ProjectedVolume.create(join(outer.path, 'config'), { 'ip-masq-a': '{}' });
      const path = join(volume.dir, await readlink(join(volume.dir, '..data')), 'ip-masq-x');
      await prepare(path, volume.dir);
      const { sources, problems } = await readGeneration(volume.dir, true);
      assert.equal(sources.length, 1);
      assert.equal(problems.length, 1);
    });
  }

  it('where it is not UTF-8, at its place', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': Buffer.from('a: 1\nb: \xff', 'latin1') });
    const { problems } = await readGeneration(volume.path, false);
    assert.deepEqual(
      problems.map(({ kind, at }) => [kind, at?.kind === 'file' && formatOrigin(at)]),
      [['encoding', 'ip-masq-a:2:4']],
    );
  });

  it('where it is a socket', async () => {
    await using volume = await plainDirectory({});
    const server = createServer().listen(join(volume.path, 'ip-masq-x'));
    await once(server, 'listening');
    const { problems } = await readGeneration(volume.path, false);
    server.close();
    assert.match(problems.map(formatProblem).join(), /^ip-masq-x: error: cannot be read: ENXIO/);
  });

  it('where its name is not UTF-8', async () => {
    await using volume = await plainDirectory({});
    const path = Buffer.concat([Buffer.from(join(volume.path, 'ip-masq-')), Buffer.from([0xff])]);
    await writeFile(path, '{}');
    const { sources, problems } = await readGeneration(volume.path, false);
    assert.deepEqual(sources, []);
    assert.deepEqual(problems.map(formatProblem), [
      'ip-masq-\ufffd: error: has a name that is not UTF-8; rename it',
    ]);
  });

  it('where the agent may not read it', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': '{}' });
    const path = join(volume.path, 'ip-masq-a');
    await chmod(path, 0);
    const { problems } = await asNobody(() => readGeneration(volume.path, false));
    assert.deepEqual(problems.map(formatProblem), [
      `ip-masq-a: error: cannot be read: EACCES: permission denied, open '${path}'; ${READABLE}`,
    ]);
  });

  it('where the agent may not read its directory', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': '{}' });
    await chmod(volume.path, 0);
    const { problems } = await asNobody(() => readGeneration(volume.path, false));
    await chmod(volume.path, 0o755); // else only root could remove it
    assert.deepEqual(problems.map(formatProblem), [
      `error: config directory ${volume.path} cannot be read: EACCES: permission denied, readlink '${volume.path}/..data'; ${MOUNT}`,
    ]);
  });

  it('in more than 1,000 sources', async () => {
    const files = Array.from({ length: 1001 }, (_, index) => [`ip-masq-${1000 + index}`, '']);
    await using volume = await plainDirectory(Object.fromEntries(files));
    const { sources, problems } = await readGeneration(volume.path, false);
    assert.equal(sources.length, 1000);
    assert.deepEqual(problems.map(formatProblem), [
      'ip-masq-2000: error: is one of more than 1000 sources, of which no more are read; join sources',
    ]);
  });

  it('on one line, whatever its name is', async () => {
    await using volume = await plainDirectory({});
    await mkdir(join(volume.path, 'ip-masq-a\nERROR: forged \u001b[2K'));
    const { problems } = await readGeneration(volume.path, false);
    for (const problem of problems) assert.doesNotMatch(formatProblem(problem), UNPRINTABLE);
    assert.deepEqual(problems.map(formatProblem), [
      `ip-masq-a\\x0aERROR: forged \\x1b[2K: error: ${NOT_REGULAR}`,
    ]);
  });
});

describe('what is not about the config', () => {
  it('is a lack of files, which is an error of the system', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': 'a: 1\n' });
    await using agent = await runWithFewFiles(
      'lib/config/read.ts',
      `const read = () => module.readGeneration(${JSON.stringify(volume.path)}, false);
      await read();
      try { for (;;) openSync('/dev/null'); } catch {}
      const error = await read().catch((error) => error);
      console.log(error.constructor.name, error.message);`,
    );
    const said = (await agent.stdout.toArray()).join('');
    assert.match(said, /^SystemError cannot read the config: EMFILE.*; raise the limits/);
  });

  it('is a bug, which is thrown as it is', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': 'a: 1\n' });
    using _ = atEachRead(() => {
      throw new TypeError('a bug');
    });
    await assert.rejects(readGeneration(volume.path, false), new TypeError('a bug'));
  });
});

describe('what changes while it is read', () => {
  it('is read again: a file that grows is never taken in part', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': '#'.repeat(500_000) });
    let times = 3;
    using _ = atEachRead(() => {
      times -= 1;
      if (times >= 0) appendFileSync(join(volume.path, 'ip-masq-a'), '#');
    });
    const { sources, problems } = await readGeneration(volume.path, false);
    assert.deepEqual(problems, []);
    assert.equal(sources[0]?.text.length, 500_003);
  });

  it('is an error where it never stops to change', async () => {
    await using volume = await plainDirectory({ 'ip-masq-a': '#' });
    using _ = atEachRead(() => appendFileSync(join(volume.path, 'ip-masq-a'), '#'));
    const { problems } = await readGeneration(volume.path, false);
    assert.deepEqual(problems.map(formatProblem), [
      `error: config directory ${volume.path} keeps changing while it is read; replace config files by renaming a complete file over the old one`,
    ]);
  });

  it('is whole: files replaced by renaming are old or new, and those removed are no error', async () => {
    await using volume = await plainDirectory({});
    await using _ = swapper(volume.path, 'renames');
    const seen = { digits: new Set<string>(), both: 0, one: 0 };
    while (seen.digits.size < 10 || seen.both < 20 || seen.one < 20) {
      const { sources, problems } = await readGeneration(volume.path, false);
      assert.deepEqual(problems.map(formatProblem), []);
      const text = sources.find(({ name }) => name === 'ip-masq-a')?.text;
      if (text !== undefined) {
        assert.match(text, /^(\d)\1{49999}$/);
        seen.digits.add(text.slice(0, 1));
        seen[sources.length === 2 ? 'both' : 'one'] += 1;
      }
      await breathe();
    }
  });
});

async function plainDirectory(files: Files) {
  const directory = await temporaryDirectory();
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory.path, name), content);
  return directory;
}

async function names(dir: string): Promise<readonly string[]> {
  const { sources, problems } = await readGeneration(dir, false);
  assert.deepEqual(problems, []);
  return sources.map(({ name }) => name);
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

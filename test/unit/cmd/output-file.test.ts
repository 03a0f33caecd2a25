import assert from 'node:assert/strict';
import { chmod, chown, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { writeOutput } from '../../../cmd/ip-masq-agent/render/output-file.ts';
import { IS_ROOT, NOBODY } from '../../lab/user.ts';
import { dir, out, useScratch } from './scratch.ts';

const LEFT_OVER = '.out.tmp-0123456789ab';

describe('an output file', () => {
  useScratch();

  it('is written where it is missing', async () => {
    assert.equal(await writeOutput(out, 'new\n'), 'written');
    assert.equal(await readFile(out, 'utf8'), 'new\n');
    assert.deepEqual(await readdir(dir), ['out']);
  });

  it('is replaced where it says something else: who has the old one open reads on in it', async () => {
    await writeFile(out, 'old and longer\n');
    const before = await stat(out);
    assert.equal(await writeOutput(out, 'new\n'), 'written');
    assert.equal(await readFile(out, 'utf8'), 'new\n');
    assert.notEqual((await stat(out)).ino, before.ino);
    assert.deepEqual(await readdir(dir), ['out']);
  });

  it('is not touched where it says the same', async () => {
    await writeFile(out, 'same\n');
    await utimes(out, 1, 1);
    const before = await stat(out, { bigint: true });
    assert.equal(await writeOutput(out, 'same\n'), 'unchanged');
    const { ino, mtimeNs, ctimeNs } = await stat(out, { bigint: true });
    assert.deepEqual([ino, mtimeNs, ctimeNs], [before.ino, before.mtimeNs, before.ctimeNs]);
  });

  it('is no failure where somebody removes it meanwhile', async () => {
    for (let turns = 0; turns < 60; turns += 1) {
      await writeFile(out, 'same\n');
      const writing = writeOutput(out, 'same\n');
      for (let turn = 0; turn < turns % 12; turn += 1) await setImmediate();
      await rm(out, { force: true });
      assert.match(await writing, /^(?:unchanged|written)$/);
    }
  });

  it('is replaced where it is no UTF-8, even if it reads the same', async () => {
    await writeFile(out, Buffer.from([0xff]));
    assert.equal(await writeOutput(out, '\ufffd'), 'written');
    assert.deepEqual(await readFile(out), Buffer.from('\ufffd'));
  });

  it('is removed where there is to be none, and stays away', async () => {
    await writeFile(out, 'old\n');
    assert.equal(await writeOutput(out, undefined), 'removed');
    assert.equal(await writeOutput(out, undefined), 'absent');
    assert.deepEqual(await readdir(dir), []);
  });

  it('can be read by everybody, whatever the umask', async () => {
    const umask = process.umask(0o077);
    try {
      await writeOutput(out, 'new\n');
    } finally {
      process.umask(umask);
    }
    assert.equal((await stat(out)).mode & 0o7777, 0o644);
  });

  it('keeps the mode that it has', async () => {
    await writeFile(out, 'old\n');
    await chmod(out, 0o600);
    await writeOutput(out, 'new\n');
    assert.equal((await stat(out)).mode & 0o7777, 0o600);
  });

  it('keeps its owner', { skip: !IS_ROOT && 'only root can give files away' }, async () => {
    await writeFile(out, 'old\n');
    await chown(out, NOBODY, NOBODY);
    await writeOutput(out, 'new\n');
    const { uid, gid } = await stat(out);
    assert.deepEqual([uid, gid], [NOBODY, NOBODY]);
  });
});

describe('what a killed writer has left', () => {
  useScratch();

  for (const [what, before, text] of [
    ['written', 'old', 'new'],
    ['left alone', 'same', 'same'],
    ['removed', 'old', undefined],
  ] as const) {
    it(`goes when the file is ${what}; nothing else of the directory does`, async () => {
      const others = [
        '.out',
        '.out.tmp-',
        '.out.tmp-backup',
        `.other${LEFT_OVER.slice(4)}`,
        LEFT_OVER.slice(1),
      ];
      for (const name of [LEFT_OVER, ...others]) await writeFile(join(dir, name), 'half');
      await writeFile(out, before);
      await writeOutput(out, text);
      const expected = text === undefined ? others : [...others, 'out'];
      assert.deepEqual((await readdir(dir)).toSorted(), expected.toSorted());
    });
  }

  it('does no harm where it cannot be removed', async () => {
    await writeFile(out, 'same');
    await mkdir(join(dir, LEFT_OVER));
    assert.equal(await writeOutput(out, 'same'), 'unchanged');
  });
});

describe('writers of one file at the same time', () => {
  useScratch();

  it('leave one of their texts as a whole and nothing else; one that loses the race says so', async () => {
    const texts = Array.from({ length: 4 }, (_, index) => `${index}`.repeat(10_000));
    for (let round = 0; round < 20; round += 1) {
      for (const ended of await Promise.allSettled(texts.map((text) => writeOutput(out, text)))) {
        if (ended.status === 'fulfilled') assert.match(ended.value, /^(?:written|unchanged)$/);
        else assert.match(ended.reason.message, /let one program write the file/);
      }
      assert.ok(texts.includes(await readFile(out, 'utf8')));
      assert.deepEqual(await readdir(dir), ['out']);
    }
  });
});

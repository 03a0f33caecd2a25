import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { interpreterLine, launcherScript, NODE_FLAGS } from '../../../build/launch.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

const SCRIPT =
  'console.log(JSON.stringify([process.execArgv, process.env.MALLOC_ARENA_MAX, process.argv.slice(2)]))';

describe('the first line of the agent', () => {
  it('starts Node.js with its flags and environment, for a program with arguments', async () => {
    await using dir = await temporaryDirectory();
    const program = join(dir.path, 'program');
    writeFileSync(program, `#!${interpreterLine(process.execPath)}\n${SCRIPT}\n`);
    chmodSync(program, 0o755);
    const printed = execFileSync(program, ['--a', 'b c'], { encoding: 'utf8' });
    assert.deepEqual(JSON.parse(printed), [NODE_FLAGS, '1', ['--a', 'b c']]);
  });

  it('leaves to Node.js its compiled modules: no flag is part of the hash by which V8 refuses them', () => {
    // The fourth number in its code cache.
    const hash = (flags: readonly string[]) =>
      execFileSync(
        process.execPath,
        [...flags, '-p', 'new vm.Script("0").createCachedData().readUInt32LE(12)'],
        { encoding: 'utf8' },
      );
    assert.equal(hash(NODE_FLAGS), hash([]));
    assert.notEqual(hash(['--expose-gc']), hash([]));
  });

  it('is as long as Linux reads it, or is refused', () => {
    const fixed = `#!${interpreterLine('')}`.length;
    const longest = 'n'.repeat(255 - fixed);
    assert.equal(`#!${interpreterLine(longest)}`.length, 255);
    assert.throws(() => interpreterLine(`${longest}n`), /n is 1 bytes too long: build in a directory/);
  });
});

describe('the launcher of an archive', () => {
  it('starts the Node.js beside it with the same flags and environment, through a link and with spaces in its path', async () => {
    await using dir = await temporaryDirectory();
    const tree = join(dir.path, 'a b');
    const lib = join(tree, 'lib/ip-masq-agent');
    for (const path of [lib, join(tree, 'bin')]) mkdirSync(path, { recursive: true });
    writeFileSync(join(tree, 'bin/ip-masq-agent'), launcherScript(), { mode: 0o755 });
    symlinkSync(process.execPath, join(lib, 'node'));
    writeFileSync(join(lib, 'ip-masq-agent'), SCRIPT);
    const link = join(dir.path, 'link');
    symlinkSync(join(tree, 'bin/ip-masq-agent'), link);
    const printed = execFileSync(link, ['--a', 'b c', ''], {
      encoding: 'utf8',
      env: { PATH: '/usr/bin:/bin' },
    });
    assert.deepEqual(JSON.parse(printed), [NODE_FLAGS, '1', ['--a', 'b c', '']]);
  });
});

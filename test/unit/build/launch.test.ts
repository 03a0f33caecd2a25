import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ENVIRONMENT, interpreterLine, NODE_FLAGS } from '../../../build/launch.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

describe('the first line of the agent', () => {
  it('starts Node.js with its flags and environment, for a program with arguments', async () => {
    await using dir = await temporaryDirectory();
    const program = join(dir.path, 'program');
    const script =
      'console.log(JSON.stringify([typeof gc, process.env.MALLOC_ARENA_MAX, process.argv.slice(2)]))';
    writeFileSync(program, `#!${interpreterLine(process.execPath)}\n${script}\n`);
    chmodSync(program, 0o755);
    const printed = execFileSync(program, ['--a', 'b c'], { encoding: 'utf8' });
    assert.deepEqual(JSON.parse(printed), ['function', '1', ['--a', 'b c']]);
  });

  it('is as long as Linux reads it, or is refused', () => {
    const fixed = `#!${interpreterLine('')}`.length;
    const longest = 'n'.repeat(255 - fixed);
    assert.equal(`#!${interpreterLine(longest)}`.length, 255);
    assert.throws(() => interpreterLine(`${longest}n`), /n is 1 bytes too long: build in a directory/);
  });
});

describe('the environment in the Dockerfile', () => {
  const dockerfile = readFileSync(new URL('../../../Dockerfile.in', import.meta.url), 'utf8');
  for (const [name, value] of Object.entries({ NODE_OPTIONS: NODE_FLAGS.join(' '), ...ENVIRONMENT }))
    it(`has the ${name} of a local build`, () => assert.ok(dockerfile.includes(` ${name}="${value}"`)));
});

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { LOADER, withCompiledCode } from '../../../build/code-cache.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

const BODY = `function once() { return process.argv.slice(2); }
console.log(JSON.stringify([IS_PRECOMPILED, once(), module === require.main]));`;

const built = withCompiledCode(BODY, [process.execPath]);
const textLength = built.indexOf(0);

/** What the program prints. */
async function printed(bundle: Buffer, ...flags: readonly string[]): Promise<unknown> {
  await using dir = await temporaryDirectory();
  const program = join(dir.path, 'program');
  writeFileSync(program, LOADER);
  writeFileSync(`${program}.bundle`, bundle);
  return JSON.parse(execFileSync(process.execPath, [...flags, program, 'a b'], { encoding: 'utf8' }));
}

const precompiled = [true, ['a b'], true];
const slower = [false, ['a b'], true];

describe('a bundle with compiled code', () => {
  it('is run from it', async () => assert.deepEqual(await printed(built), precompiled));

  it('has the same bytes in each build', () =>
    assert.ok(withCompiledCode(BODY, [process.execPath]).equals(built)));

  it('runs without it if it is damaged, wherever that is', async () => {
    const code = Math.ceil((textLength + 1) / 8) * 8;
    const step = Math.ceil((built.length - code) / 8);
    for (let at = code; at < built.length; at += step) {
      const damaged = Buffer.from(built);
      damaged[at] = ~(damaged[at] ?? 0);
      assert.deepEqual(await printed(damaged), slower, `byte ${at}`);
    }
  });

  it('runs without it if it is missing, or a part of it', async () => {
    for (const length of [textLength + 1, textLength + 2, textLength + 100, built.length - 1])
      assert.deepEqual(await printed(built.subarray(0, length)), slower, `${length} bytes`);
  });

  it('runs without it if it is of another program, or Node.js runs with flags that change the code', async () => {
    const other = withCompiledCode(`${BODY} `, [process.execPath]);
    const foreign = Buffer.concat([built.subarray(0, textLength), other.subarray(other.indexOf(0))]);
    assert.deepEqual(await printed(foreign), slower);
    assert.deepEqual(await printed(built, '--no-opt'), slower);
  });
});

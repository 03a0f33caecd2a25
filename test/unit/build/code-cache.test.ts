import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { LOADER, withCompiledCode } from '../../../build/code-cache.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

const MAIN = `const { operands } = require('./other.js');
console.log(JSON.stringify([isPrecompiled(), operands()]));`;

function build(main: string): Buffer {
  const other = 'exports.operands = () => process.argv.slice(2);';
  const parts = { first: new Map([['./main.js', main]]), second: new Map([['./other.js', other]]) };
  return withCompiledCode(['./main.js'], new Map(Object.entries(parts)));
}

const built = build(MAIN);
const codes = codesOf(built);

/** Where the compiled code of each part begins and ends. */
function codesOf(bundle: Buffer): readonly { readonly start: number; readonly end: number }[] {
  const content = 8 + Number(bundle.toString('latin1', 0, 8));
  const { parts } = JSON.parse(bundle.toString('latin1', 8, content));
  return Object.values<number[]>(parts).map(([position = 0, , start = 0, length = 0]) => ({
    start: content + position + start,
    end: content + position + length,
  }));
}

/** What the program prints. */
async function printed(bundle: Buffer, ...flags: readonly string[]): Promise<unknown> {
  await using dir = await temporaryDirectory();
  const program = join(dir.path, 'program');
  writeFileSync(program, LOADER);
  writeFileSync(`${program}.bundle`, bundle);
  return JSON.parse(execFileSync(process.execPath, [...flags, program, 'a b'], { encoding: 'utf8' }));
}

const precompiled = [true, ['a b']];
const slower = [false, ['a b']];

describe('a bundle with compiled code', () => {
  it('is run from it', async () => assert.deepEqual(await printed(built), precompiled));

  it('has a clock with one beginning', async () => {
    const origins = `const first = performance.timeOrigin;
for (const end = process.uptime() + 0.01; process.uptime() < end; );
console.log(JSON.stringify(performance.timeOrigin - first));`;
    assert.equal(await printed(build(origins)), 0);
  });

  it('has the same bytes in each build', () => assert.ok(build(MAIN).equals(built)));

  it('runs without it if that of any part is damaged, wherever that is', async () => {
    for (const { start, end } of codes)
      for (let at = start; at < end; at += Math.ceil((end - start) / 4)) {
        const damaged = Buffer.from(built);
        damaged[at] = ~(damaged[at] ?? 0);
        assert.deepEqual(await printed(damaged), slower, `byte ${at}`);
      }
  });

  it('runs without it if it is missing, or a part of it', async () => {
    const { start = 0 } = codes.at(-1) ?? {};
    for (const length of [start, start + 1, start + 100, built.length - 1])
      assert.deepEqual(await printed(built.subarray(0, length)), slower, `${length} bytes`);
  });

  it('runs without it if it is of another program, or Node.js runs with flags that change the code', async () => {
    const other = build(`${MAIN} ;`);
    const [codeOfOther] = codesOf(other);
    const foreign = Buffer.from(built);
    other.copy(foreign, codes[0]?.start, codeOfOther?.start, codeOfOther?.end);
    assert.deepEqual(await printed(foreign), slower);
    assert.deepEqual(await printed(built, '--no-opt'), slower);
  });
});

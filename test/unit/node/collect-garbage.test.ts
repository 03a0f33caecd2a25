import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';

const MODULE = fileURLToPath(new URL('../../../lib/node/collect-garbage.ts', import.meta.url));

/** Prints for each turn whether garbage was collected in it. A process of its own has a small heap that nothing else uses. */
const PROGRAM = `
import { mock } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
const { collectGarbageSoon } = await import(process.argv[1]);
mock.timers.enable({ apis: ['setTimeout'] });
const kept = [];
async function collects(changes, bytes = 0) {
  const garbage = new WeakRef({});
  // What a WeakRef has given stays until the end of the turn.
  await turn();
  if (bytes > 0) kept.push(Array.from({ length: bytes / 8 }, (_, index) => index + 0.5));
  for (let change = 0; change < changes; change += 1) {
    collectGarbageSoon();
    mock.timers.tick(100);
  }
  if (changes === 0) mock.timers.tick(60_000);
  return garbage.deref() === undefined;
}
const start = [await collects(29), await collects(1)];
const quiet = [await collects(0), await collects(30)];
const grown = [await collects(30, 8e6 + process.memoryUsage().heapUsed), await collects(30)];
console.log(JSON.stringify({ start, quiet, grown, kept: kept.length }));
`;

it('collects garbage once for all changes of a while, also where they never stop coming, if the heap has grown by half', () => {
  const args = [
    '--max-semi-space-size=64',
    '--min-semi-space-size=64',
    '--input-type=module',
    '-e',
    PROGRAM,
    MODULE,
  ];
  assert.deepEqual(JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })), {
    start: [false, true],
    quiet: [false, false],
    grown: [true, false],
    kept: 1,
  });
});

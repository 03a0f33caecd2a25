/**
 * Breaks two copies of the sources, side by side, by one patch after the other, and runs the commands at its head. Fails if
 * one of them does not: a test must notice what the name of the patch says.
 * Usage: [SEED=1] [SECONDS=600] node test/faults/faults.ts [PATTERN], of the names of the patches to try. With SECONDS it
 * begins none after that time, and SEED draws their order.
 */
import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { cpSync, realpathSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { temporaryDirectory } from '../lab/volume.ts';
import { breakSources, type Patch, readPatches } from './patch.ts';

interface Outcome {
  readonly passed: number;
  /** The names of the tests that failed. */
  readonly failed: readonly string[];
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COPIES = 2;
/** A broken loop may have no end. */
const MOST_MS = 600_000;
const LEFT_OUT = ['.git', 'bin', 'node_modules'];
const [pattern = ''] = process.argv.slice(2);
const limit = Number(process.env['SECONDS'] || Number.POSITIVE_INFINITY);

const patches = readPatches().filter(({ name }) => name.includes(pattern));
const queue = limit < Number.POSITIVE_INFINITY ? draw(patches) : [...patches];
/** What the commands print without a fault. Two patches may need the same. */
const sound = new Map<string, Promise<Outcome>>();
/** What was not noticed. */
const reports: string[] = [];
const start = performance.now();
const secondsGone = () => (performance.now() - start) / 1000;

await Promise.all(Array.from({ length: COPIES }, tryPatches));
console.log(
  `${patches.length - queue.length} of ${patches.length} faults in ${Math.round(secondsGone())} seconds`,
);
// The last lines of a long log are what people see of it.
for (const report of reports) console.error(report);

/** Takes patches from the queue, for a copy of its own. */
async function tryPatches(): Promise<void> {
  await using directory = await temporaryDirectory();
  const copy = directory.path;
  cpSync(ROOT, copy, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (path) => !LEFT_OUT.includes(basename(path)),
  });
  symlinkSync(realpathSync(join(ROOT, 'node_modules')), join(copy, 'node_modules'));
  await runNode(copy, ['build/compile-schema.ts']);
  while (secondsGone() < limit) {
    const patch = queue.shift();
    if (patch === undefined) return;
    const problems = await tryPatch(copy, patch).catch((error: Error) => [error.message]);
    if (problems.length === 0) {
      console.log(`noticed     ${patch.name}`);
      continue;
    }
    const report = [`NOT NOTICED ${patch.name}`, ...problems].join('\n  ');
    console.log(report);
    reports.push(report);
    process.exitCode = 1;
  }
}

/** Says what is wrong with a patch or its tests. */
async function tryPatch(copy: string, patch: Patch): Promise<readonly string[]> {
  // A test that fails without a fault, or that is not there, cannot notice one.
  const before = await inTurn(patch.commands, async (command) => {
    const outcome = sound.get(command) ?? runSound(copy, command);
    sound.set(command, outcome);
    const { passed, failed } = await outcome;
    return failed.length > 0 || passed === 0
      ? [
          `without the fault, ${passed} pass, ${failed.length} fail: ${command}`,
          ...failed.map((name) => `failed: ${name}`),
        ]
      : [];
  });
  if (before.length > 0) return before;
  const mend = breakSources(copy, patch);
  try {
    return await inTurn(patch.commands, async (command) => {
      const { passed, failed } = await run(copy, command);
      return failed.length > 0 ? [] : [`${passed} pass, none fails: ${command}`];
    });
  } finally {
    mend();
  }
}

/** Runs a command without a fault, and once more if a test fails: whether tests pass on a busy machine is not asked here. */
async function runSound(copy: string, command: string): Promise<Outcome> {
  const outcome = await run(copy, command);
  if (outcome.failed.length === 0) return outcome;
  console.log(`failed without a fault, tried again: ${outcome.failed.join('; ')}: ${command}`);
  return run(copy, command);
}

async function inTurn(
  commands: readonly string[],
  check: (command: string) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const problems: string[] = [];
  for (const command of commands) problems.push(...(await check(command)));
  return problems;
}

/** How many tests of a command pass and fail. A file that does not load counts for neither. */
async function run(copy: string, command: string): Promise<Outcome> {
  if (!/ test\/(?:unit|kernel)\//.test(command)) await runNode(copy, ['build/bundle.ts']);
  const words = command.match(/(?:'[^']*'|[^\s'])+/g) ?? [];
  const args = words.slice(1).map((word) => word.replaceAll("'", ''));
  // A broken test may leave something open, for which Node.js would wait.
  const options = [
    '--test-force-exit',
    '--test-isolation=none',
    '--test-reporter=tap',
    '--test-timeout=60000',
  ];
  const stdout = await runNode(copy, [...options, ...args]);
  const ended = stdout.matchAll(/^ *(not ok|ok) \d+ - (.*)\n *---\n *duration_ms: .*\n *type: 'test'/gm);
  const { ok = [], 'not ok': failed = [] } = Object.groupBy(ended, ([, outcome = '']) => outcome);
  return { passed: ok.length, failed: failed.map(([, , name = '']) => name) };
}

/** Resolves to what it prints, whether it fails or not. */
function runNode(cwd: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    const env = { ...process.env, NODE_COMPILE_CACHE: join(cwd, 'bin/compile-cache') };
    const options = { cwd, env, maxBuffer: Number.POSITIVE_INFINITY, timeout: MOST_MS };
    execFile('node', args, options, (_error, stdout) => {
      resolve(stdout);
    });
  });
}

function draw(all: readonly Patch[]): Patch[] {
  const seed = Number(process.env['SEED'] || randomInt(2 ** 31));
  console.log(`SEED=${seed} draws the order`);
  return fc.sample(fc.shuffledSubarray([...all], { minLength: all.length }), { seed, numRuns: 1 }).flat();
}

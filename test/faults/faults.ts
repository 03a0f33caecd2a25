/**
 * Breaks a copy of the sources with each patch beside this file, one at a time, and runs the commands at its head. Fails
 * if one of them does: a test must notice what the name of the patch says.
 * Usage: node test/faults/faults.ts [PATTERN], of the names of the patches to try
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, globSync, readFileSync, realpathSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from '../lab/volume.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const [pattern = ''] = process.argv.slice(2);
const patches = globSync(join(import.meta.dirname, '*.patch')).filter((path) => path.includes(pattern));

await using directory = await temporaryDirectory();
const copy = directory.path;
const tracked = execFileSync('git', ['-C', ROOT, 'ls-files', '-z'], { encoding: 'utf8' }).split('\0');
for (const path of tracked.filter(Boolean)) cpSync(join(ROOT, path), join(copy, path));
symlinkSync(realpathSync(join(ROOT, 'node_modules')), join(copy, 'node_modules'));

build();
// A test that fails without a fault, or that is not there, cannot notice one.
for (const command of new Set(patches.flatMap(commandsOf))) {
  const { passed, failed } = run(command);
  if (failed > 0 || passed === 0)
    throw new Error(`without a fault, ${passed} pass, ${failed} fail: ${command}`);
}
for (const patch of patches) {
  // Lines that have moved, or whose neighbours have changed, are still found.
  execFileSync('git', ['apply', '-C1', patch], { cwd: copy });
  build();
  const missed = commandsOf(patch).filter((command) => run(command).failed === 0);
  execFileSync('git', ['apply', '-C1', '--reverse', patch], { cwd: copy });
  console.log(`${missed.length === 0 ? 'noticed    ' : 'NOT NOTICED'} ${basename(patch, '.patch')}`);
  for (const command of missed) console.log(`  passes: ${command}`);
  if (missed.length > 0) process.exitCode = 1;
}

function commandsOf(patch: string): readonly string[] {
  return readFileSync(patch, 'utf8').match(/^node --test .*$/gm) ?? [];
}

function build(): void {
  for (const script of ['build/compile-schema.ts', 'build/bundle.ts'])
    execFileSync('node', [script], { cwd: copy, stdio: 'pipe' });
}

/** How many tests of a command pass and fail. A file that does not load counts for neither. */
function run(command: string): { readonly passed: number; readonly failed: number } {
  const words = command.match(/(?:'[^']*'|[^\s'])+/g) ?? [];
  const [node = '', ...args] = words.map((word) => word.replaceAll("'", ''));
  const { stdout } = spawnSync(node, ['--test-reporter=tap', '--test-timeout=120000', ...args], {
    cwd: copy,
    encoding: 'utf8',
  });
  const ended = [...stdout.matchAll(/^ *(not ok|ok) \d+ - .*\n *---\n *duration_ms: .*\n *type: 'test'/gm)];
  const failed = ended.filter(([, outcome]) => outcome === 'not ok').length;
  return { passed: ended.length - failed, failed };
}

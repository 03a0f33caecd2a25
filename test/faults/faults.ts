/**
 * Breaks the code in each place of the table, one at a time, and runs the tests that must notice it. Fails if any of
 * them passes.
 * Usage: node test/faults/faults.ts [--root=DIR] [--only=PATTERN]; DIR is a checkout of any revision, with node_modules;
 * PATTERN is for the names of the faults to try.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { temporaryDirectory } from '../lab/volume.ts';
import { FAULTS, type Fault, type Tests } from './table.ts';

const THIS = fileURLToPath(new URL('../..', import.meta.url));
const OPTIONS = { root: { type: 'string', default: THIS }, only: { type: 'string', default: '' } } as const;
const { root, only } = parseArgs({ options: OPTIONS }).values;
const faults = FAULTS.filter(({ name }) => new RegExp(only).test(name));

await using directory = await temporaryDirectory();
const copy = directory.path;
const files = copyCheckout(resolve(root), copy);
const env = { ...process.env, PATH: `${join(copy, 'node_modules/.bin')}${delimiter}${process.env['PATH']}` };

await build('build/compile-schema.ts');
await build('build/bundle.ts');
await assertGreen();
printRow('fault', 'noticed by', 'result');
const results: string[] = [];
for (const fault of faults) {
  const result = await tryOut(fault);
  const noticedBy = [...new Set(fault.noticedBy.map(([file]) => file))].join(', ');
  printRow(fault.name, noticedBy, result);
  results.push(result);
}
const stale = await tryStale();
printRow('binary: it is older than the sources', 'every test that runs it', stale);
results.push(stale);
const red = results.filter((result) => result === 'red').length;
console.log(`${red} of ${results.length} faults are noticed`);
process.exitCode = red === results.length ? 0 : 1;

function printRow(fault: string, noticedBy: string, result: string): void {
  console.log(`${fault.padEnd(72)} | ${noticedBy.padEnd(54)} | ${result}`);
}

/** Copies the files that git tracks, as they are in the working tree. Returns their paths. */
function copyCheckout(from: string, to: string): readonly string[] {
  const listing = execFileSync('git', ['-C', from, 'ls-files', '-z'], { encoding: 'utf8' });
  const paths = listing.split('\0').filter((path) => path !== '');
  for (const path of paths) cpSync(join(from, path), join(to, path));
  symlinkSync(realpathSync(join(from, 'node_modules')), join(to, 'node_modules'));
  return paths;
}

/** Tests that fail without a fault, or that do not exist, cannot notice anything. */
async function assertGreen(): Promise<void> {
  const all = faults.flatMap(({ noticedBy }) => noticedBy);
  for (const tests of new Map(all.map((one) => [one.join(), one])).values()) {
    const { passed, failed } = await runTests(tests);
    if (failed.length > 0) throw new Error(`${tests.join(': ')} fails without a fault: ${failed.join('; ')}`);
    if (passed === 0) throw new Error(`there is no test ${tests.join(': ')}`);
  }
}

async function tryOut({ edits, noticedBy }: Fault): Promise<string> {
  const places = edits.flatMap(([code, broken]) => findCode(code).map((place) => ({ ...place, broken })));
  const [place] = places;
  if (place === undefined || places.length > 1) return `NOT TRIED: the code is found ${places.length} times`;
  const { path, text, start, end, broken } = place;
  writeFileSync(path, `${text.slice(0, start)}${broken}${text.slice(end)}`);
  try {
    await build('build/bundle.ts');
    const outcomes = await Promise.all(noticedBy.map(runTests));
    const green = noticedBy.filter((_, index) => outcomes[index]?.failed.length === 0);
    return green.length === 0 ? 'red' : `NOT NOTICED: ${green.map((tests) => tests.join(': ')).join(', ')}`;
  } finally {
    writeFileSync(path, text);
  }
}

/** Changes a source without a build. */
async function tryStale(): Promise<string> {
  const path = join(copy, 'lib/text/words.ts');
  const text = readFileSync(path, 'utf8');
  await build('build/bundle.ts');
  writeFileSync(path, `${text}\n`);
  const { code, stdout } = await runNode('--test', '--test-reporter=tap', 'test/e2e/version.test.ts');
  writeFileSync(path, text);
  return code !== 0 && /words\.ts has changed; run `make build`/.test(stdout) ? 'red' : 'NOT NOTICED';
}

/** A stretch of a source file. */
interface Place {
  readonly path: string;
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** All places of the code in cmd and lib, whatever the white space: files move between revisions, and lines break. */
function findCode(code: string): readonly Place[] {
  const words = code.split(/\s+/).map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  const pattern = new RegExp(words.join('\\s+'), 'g');
  const sources = files.filter((file) => /^(?:cmd|lib)\/.*\.ts$/.test(file));
  return sources.flatMap((file) => {
    const path = join(copy, file);
    const text = readFileSync(path, 'utf8');
    return Array.from(text.matchAll(pattern), ({ index, 0: { length } }) => {
      return { path, text, start: index, end: index + length };
    });
  });
}

async function runTests([name, pattern]: Tests): Promise<{ passed: number; failed: readonly string[] }> {
  const [file, ...others] = files.filter((path) => path.startsWith('test/') && path.endsWith(`/${name}`));
  if (file === undefined || others.length > 0) throw new Error(`not exactly one test file is called ${name}`);
  const limits = ['--test-timeout=120000', `--test-name-pattern=${pattern}`];
  const { code, stdout } = await runNode('--test', '--test-reporter=tap', ...limits, file);
  const results = Array.from(stdout.matchAll(/^ *(not )?ok \d+ - (.*)$/gm), ([, not, test = '']) => ({
    not,
    test,
  }));
  const failed = results.filter(({ not }) => not !== undefined).map(({ test }) => test);
  // A file of which no test runs counts as a test that passes.
  const passed = results.filter(({ not, test }) => not === undefined && !test.endsWith(file)).length;
  // A file that does not even load would be red whatever is broken.
  if ((code === 0) !== (failed.length === 0) || failed.some((test) => test.endsWith(file)))
    throw new Error(`${file} does not run: ${stdout}`);
  return { passed, failed };
}

async function build(script: string): Promise<void> {
  const { code, stderr } = await runNode(script);
  if (code !== 0) throw new Error(`${script} fails: ${stderr}`);
}

async function runNode(
  ...args: readonly string[]
): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = spawn('node', args, { cwd: copy, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([
    textOf(child.stdout),
    textOf(child.stderr),
    once(child, 'close'),
  ]);
  return { code, stdout, stderr };
}

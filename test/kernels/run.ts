// Runs tests in virtual machines with other kernels. In the environment: KERNELS=6.1,6.1-ipv4 (all, if absent), SHORT=yes for
// what `.ci/run` has time for, and RECORD=yes to write what was seen to the documentation.
import { availableParallelism } from 'node:os';
import { writeGenerated } from '../../build/docs.ts';
import { type Check, checksFor } from './checks.ts';
import type { Line } from './guest.ts';
import { IPV4_ALONE, MACHINES, type Machine } from './machines.ts';
import {
  type KernelResult,
  type Outcome,
  readKernelResults,
  withRun,
  writeKernelResults,
} from './results.ts';
import { DownloadError, kernelOf, type Run, runMachine } from './vm.ts';

const IS_SHORT = Boolean(process.env['SHORT']);
/** Far longer than a machine takes, on a busy host too. What hangs in it ends before, by the machine's own clock. */
const LIMIT_SECONDS = IS_SHORT ? 900 : 3_600;
/** The part of the random configs that tests look at. */
const RUNS = '0.1';
/** Most packets of such a config are of IPv6. */
const IPV4_RUNS = '0.4';
const CONSOLE_LINES = 100;

type Test = Extract<Line, { readonly name: string }>;

try {
  const skipped = await runAll();
  for (const one of skipped) console.error(`test-kernels: skipped ${one}`);
} catch (error) {
  console.error(`test-kernels: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}

/** Returns the machines that cannot run here, and why. */
async function runAll(): Promise<readonly string[]> {
  const machines = chosen();
  if (process.arch !== 'x64') return machines.map(({ name }) => `${name}: it is for machines of amd64`);
  const skipped: string[] = [];
  const ready: { readonly machine: Machine; readonly kernel: string }[] = [];
  for (const machine of machines)
    try {
      ready.push({ machine, kernel: kernelOf(machine.suite) });
    } catch (error) {
      if (!(error instanceof DownloadError)) throw error;
      skipped.push(`${machine.name}: its kernel cannot be downloaded: ${error.message}`);
    }
  const results: KernelResult[] = [];
  const work = async () => {
    for (let one = ready.shift(); one !== undefined; one = ready.shift()) {
      const result = await runOne(one.machine, one.kernel);
      if (result === undefined)
        skipped.push(`${one.machine.name}: not done in ${LIMIT_SECONDS} s on this machine`);
      else results.push(result);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  if (process.env['RECORD']) {
    writeKernelResults(
      withRun(
        readKernelResults(),
        // A machine that never began has shown nothing.
        results.filter(({ version }) => version !== ''),
        MACHINES.map(({ name }) => name),
      ),
    );
    writeGenerated();
  }
  return skipped;
}

function chosen(): readonly Machine[] {
  const wanted = process.env['KERNELS'];
  if (!wanted) return MACHINES;
  return wanted.split(',').map((name) => {
    const machine = MACHINES.find((one) => one.name === name);
    if (machine !== undefined) return machine;
    throw new Error(`KERNELS=${wanted}: there are ${MACHINES.map((one) => one.name).join(', ')}`);
  });
}

/** Undefined if this host is too slow for a short run: the machine has begun, and nothing had failed until the limit. */
async function runOne(machine: Machine, kernel: string): Promise<KernelResult | undefined> {
  const checks = checksFor(machine, IS_SHORT);
  const able = checks.filter(({ kind, isAboutLack }) => isAboutLack || !machine.lacks.includes(kind));
  const files = Map.groupBy(able, ({ file }) => file);
  const plan = {
    files: Array.from(files, ([file, own]) => ({
      file,
      pattern: own.map(({ tests }) => tests.source).join('|'),
    })),
    env: {
      RUNS: machine.parameters === IPV4_ALONE ? IPV4_RUNS : RUNS,
      KERNEL_LACKS: machine.lacks.join(),
      ...(machine.parameters === IPV4_ALONE && { IPV4_ALONE: 'yes' }),
    },
  };
  const run = await runMachine(machine, kernel, plan, LIMIT_SECONDS);
  const tests = run.lines.filter((line): line is Test => 'name' in line);
  const isSlow = run.seconds >= LIMIT_SECONDS && tests.every(({ outcome }) => outcome === 'passed');
  if (IS_SHORT && isSlow && run.lines.length > 0) return undefined;
  const messages = run.lines.flatMap((line) => ('message' in line ? [line.message] : []));
  const refusals = new Map(
    machine.lacks.flatMap((kind) => {
      const said = messages.find((one) => one.startsWith(`${kind}: `));
      return said === undefined ? [] : [[kind, said.slice(`${kind}: `.length)] as const];
    }),
  );
  const outcomeOf = (check: Check): Outcome => {
    if (!able.includes(check)) return refusals.has(check.kind) ? 'refused' : 'failed';
    const own = tests.filter(({ file, name }) => file === check.file && check.tests.test(name));
    // What did not run, for whatever reason, has failed.
    return own.length > 0 && own.every(({ outcome }) => outcome === 'passed') ? 'passed' : 'failed';
  };
  const result: KernelResult = {
    name: machine.name,
    title: machine.title,
    version:
      run.lines.flatMap((line) =>
        'version' in line ? (/Debian (\S+)/.exec(line.version)?.[1] ?? []) : [],
      )[0] ?? '',
    checks: Object.fromEntries(checks.map((check) => [check.title, outcomeOf(check)])),
    refusals: Object.fromEntries(refusals),
  };
  print(result, run, tests);
  return result;
}

function print(result: KernelResult, run: Run, tests: readonly Test[]): void {
  console.log(`\n${result.name} (Debian's ${result.version}): ${run.seconds} s`);
  for (const [title, outcome] of Object.entries(result.checks)) console.log(`  ${outcome.padEnd(9)}${title}`);
  for (const [kind, message] of Object.entries(result.refusals)) console.log(`  ${kind}: ${message}`);
  for (const { name, error, outcome, seconds } of tests)
    if (process.env['TIMES'] || outcome !== 'passed')
      console.log(`  ${outcome} after ${seconds} s: ${name}: ${error ?? ''}`);
  if (!Object.values(result.checks).includes('failed')) return;
  process.exitCode = 1;
  console.log(
    `  the console of ${result.name}:\n${run.console.split('\n').slice(-CONSOLE_LINES).join('\n')}`,
  );
}

/**
 * In a virtual machine: runs tests, and writes to DIRECTORY what became of them.
 * Usage: node test/kernels/guest.ts DIRECTORY, where plan.json is.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { availableParallelism, version } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

/** What a machine is to run: names of files, and a pattern for the full names of the tests of each. */
export interface Plan {
  readonly files: readonly { readonly file: string; readonly pattern: string }[];
  readonly env: Readonly<Record<string, string>>;
}

/** A line of what a machine writes. */
export type Line =
  /** The kernel. */
  | { readonly version: string }
  | {
      readonly file: string;
      /** Behind the names of its suites. */
      readonly name: string;
      readonly outcome: 'passed' | 'failed' | 'skipped';
      readonly seconds: number;
      /** What is wrong. */
      readonly error?: string;
    }
  /** What a test has to tell. */
  | { readonly message: string }
  /** Nothing comes any more. */
  | { readonly isDone: true };

/** For a file, by the clock of the machine, which may be slow: vm.ts says why. */
const TIMEOUT_MS = 300_000;

const directory = process.argv[2] ?? '';
const { files, env }: Plan = JSON.parse(readFileSync(join(directory, 'plan.json'), 'utf8'));
Object.assign(process.env, env);
write({ version: version() });
const waiting = [...files];
await Promise.all(Array.from({ length: availableParallelism() }, work));
write({ isDone: true });

async function work(): Promise<void> {
  for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) await runFile(one);
}

async function runFile({ file, pattern }: Plan['files'][number]): Promise<void> {
  const stream = run({ files: [file], testNamePatterns: RegExp(pattern), timeout: TIMEOUT_MS });
  const suites: string[] = [];
  const ended = (
    event: { readonly name: string; readonly nesting: number; readonly skip?: string | boolean } & {
      readonly details: { readonly type?: string; readonly duration_ms: number; readonly error?: Error };
    },
    outcome: 'passed' | 'failed',
  ) => {
    const { name, nesting, skip, details } = event;
    if (details.type === 'suite') return;
    write({
      file,
      name: [...suites.slice(0, nesting), name].join(' '),
      outcome: skip === undefined ? outcome : 'skipped',
      seconds: Math.round(details.duration_ms / 1000),
      ...(details.error && { error: `${details.error.cause ?? details.error}` }),
    });
  };
  stream.on('test:start', ({ name, nesting }) => {
    suites[nesting] = name;
  });
  stream.on('test:pass', (event) => ended(event, 'passed'));
  stream.on('test:fail', (event) => ended(event, 'failed'));
  stream.on('test:diagnostic', ({ message }) => write({ message }));
  for await (const text of stream.compose(new spec())) process.stdout.write(text);
}

function write(line: Line): void {
  appendFileSync(join(directory, 'lines.jsonl'), `${JSON.stringify(line)}\n`);
}

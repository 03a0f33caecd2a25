import { fileURLToPath } from 'node:url';
import { type Command, type Environment, run } from '../lab/run.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MINUTES_MS = 300_000;

/** The command that runs make for the targets and variables. */
export function makeCommand(...words: readonly string[]): Command {
  // Set up is the clone already, or no test would run; what changes then is not for a test to install.
  return { file: 'make', args: ['-C', ROOT, 'SETUP=true', ...words] };
}

/** Runs make as a user does, to fetch what npm has not installed yet for another architecture. */
export async function makeWithNetwork(...words: readonly string[]): Promise<void> {
  // It is no part of the make, and no part of the run of tests, that this is in.
  const own = /^(?:MAKE|MFLAGS|NODE_TEST_)/;
  const env = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined || own.test(name) ? [] : [[name, value] as const],
  );
  await succeedMaking(makeCommand(...words), Object.fromEntries(env));
}

/** The output of a make, which must succeed. */
export async function succeedMaking(command: Command, env: Environment): Promise<string> {
  const { code, stdout, stderr } = await run(command, env, { timeoutMs: MINUTES_MS });
  if (code !== 0) throw new Error(`${command.args.join(' ')}: ${stdout.slice(-2000)}${stderr.slice(-2000)}`);
  return stdout;
}

import { fileURLToPath } from 'node:url';
import { type Command, type Environment, run, succeed } from '../lab/run.ts';

/** The directory of this project. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The architecture of this machine, as Debian and Docker name it. */
export const OWN = process.arch === 'arm64' ? 'arm64' : 'amd64';

const MINUTES_MS = 600_000;

/** The command that runs make as a person does, but for the set-up: a test must not install anything. */
export function makeCommand(umask: string, ...words: readonly string[]): Command {
  return makeCommandIn(ROOT, umask, ...words);
}

/** The same in another tree, such as that of another commit. */
export function makeCommandIn(tree: string, umask: string, ...words: readonly string[]): Command {
  // What make prints is told if it fails.
  const script = 'umask "$0" && exec make "$@" >&2';
  return { file: 'sh', args: ['-c', script, umask, '-C', tree, 'SETUP=true', ...words] };
}

/** The environment of the person who runs the tests: npm needs its settings, and make nothing of a make that this may run in. */
export function ownEnvironment(): Environment {
  const given = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined || /^(?:MAKE|MFLAGS|NODE_TEST_)/.test(name) ? [] : [[name, value] as const],
  );
  return Object.fromEntries(given);
}

/** Variables for make, with which it builds images of stand-ins, without a daemon. Builds the stand-ins if they are not there. */
export async function imageVariables(env = ownEnvironment()): Promise<readonly string[]> {
  const builder = ['BUILDER=buildah', 'BUILD_FLAGS=--network=host', `ALL_ARCH=${OWN}`];
  const standIn = (name: string) => `localhost/stand-in-${name}`;
  const inspect = { file: 'buildah', args: ['inspect', '--type=image', standIn('node')] };
  // It is built last.
  if ((await run(inspect, env)).code !== 0)
    await succeed(run(makeCommand('022', 'stand-ins', ...builder), env, { timeoutMs: MINUTES_MS }));
  const images = ['base', 'debian', 'node'].map((name) => `${name.toUpperCase()}_IMAGE=${standIn(name)}`);
  return [...builder, ...images];
}

import { fileURLToPath } from 'node:url';
import type { Command } from '../lab/run.ts';
import { debianRoot } from './base.ts';
import type { Docker } from './docker.ts';

/** The directory of this project. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const BASE = 'debian-of-the-test:bookworm';

/** Imports the Debian that images are built on. Returns its name. */
export async function importBase(docker: Docker): Promise<string> {
  await docker.must('import', await debianRoot(), BASE);
  return BASE;
}

/** The command that runs make as a person does, but for the set-up: a test must not install anything. */
export function makeCommand(umask: string, ...words: readonly string[]): Command {
  return makeCommandIn(ROOT, umask, ...words);
}

/** The same in another tree, such as that of another commit. */
export function makeCommandIn(tree: string, umask: string, ...words: readonly string[]): Command {
  // A failed step of Docker tells why on the standard output.
  const script = 'umask "$0" && exec make "$@" >&2';
  return { file: 'sh', args: ['-c', script, umask, '-C', tree, 'SETUP=true', ...words] };
}

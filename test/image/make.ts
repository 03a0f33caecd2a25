import { fileURLToPath } from 'node:url';
import type { Command } from '../lab/run.ts';

/** The directory of this project. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

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

import { execFileSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** For programs that run in a mount namespace of their own. */
export function mount(...args: readonly string[]): void {
  execFileSync('mount', args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

/**
 * What is written to a directory from now on goes to another one, below `store`.
 *
 * @returns that other directory; undefined if the machine has no such directory, or a link to one
 */
export function cover(directory: string, store: string): string | undefined {
  if (lstatSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined;
  const [upper, work] = [join(store, directory, 'upper'), join(store, directory, 'work')];
  for (const path of [upper, work]) mkdirSync(path, { recursive: true });
  chmodSync(upper, statSync(directory).mode);
  mount(
    '-t',
    'overlay',
    '-o',
    `lowerdir=${directory},upperdir=${upper},workdir=${work}`,
    'overlay',
    directory,
  );
  return upper;
}

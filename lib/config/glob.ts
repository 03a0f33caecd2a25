import type { Dirent } from 'node:fs';
import glob, { type Entry } from 'fast-glob';

/**
 * What of a directory has a name that matches, whatever kind of file it is. Links are not followed.
 *
 * @param list lists one directory: fast-glob by itself takes one that is missing for an empty one
 * @param depth how many directories deep a pattern may reach
 */
export function entriesOf(
  directory: string,
  patterns: readonly string[],
  list: (directory: string) => readonly Dirent[],
  depth = 1,
): readonly Entry[] {
  return glob.sync([...patterns], {
    cwd: directory,
    deep: depth,
    followSymbolicLinks: false,
    // It asks for entries with their types, and never for names alone.
    fs: { readdirSync: list as never },
    objectMode: true,
    onlyFiles: false,
    unique: false,
  });
}

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A hash of each file, by its path in the project. */
export type Sources = Readonly<Record<string, string>>;

/** What decides about a bundle beside the files in it. The lockfile stands for all libraries. */
const OTHERS = [
  'build/bundle.ts',
  'build/code-cache.ts',
  'build/compile-schema.ts',
  'build/launch.ts',
  'build/native-module.ts',
  'package-lock.json',
  'schemas/ip-masq-config.schema.json',
];

/** The sources of a bundle, as they are now. @param parts the paths of all files in it */
export function sourcesOf(root: string, parts: readonly string[]): Sources {
  const own = parts.filter((path) => /^(?:cmd|lib)\//.test(path));
  return Object.fromEntries([...own, ...OTHERS].map((path) => [path, hashOf(join(root, path))]));
}

/** A hash of a file; empty if it is not there. */
export function hashOf(path: string): string {
  try {
    return createHash('sha1').update(readFileSync(path)).digest('base64');
  } catch {
    return '';
  }
}

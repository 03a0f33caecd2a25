import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/**
 * A file beside this one: commands of tests, then what to replace (-) by what (+), in pairs. Its folder names a room of the
 * sources. No file, line or neighbour is named: what is replaced is one expression, which the room has exactly once,
 * however it is formatted and in whichever file. So a patch survives all but a change of that expression itself.
 */
export interface Patch {
  readonly name: string;
  readonly commands: readonly string[];
  readonly room: string;
  readonly edits: readonly Edit[];
}

interface Edit {
  readonly removed: string;
  readonly added: string;
}

export function readPatches(): readonly Patch[] {
  return globSync(join(import.meta.dirname, '**/*.patch'))
    .sort()
    .map((path) => {
      const text = readFileSync(path, 'utf8');
      const edits = [...text.matchAll(/((?:^-.*\n)+)((?:^\+.*\n)*)/gm)];
      const name = relative(import.meta.dirname, path).replace(/\.patch$/, '');
      return {
        name,
        commands: text.match(/^node --test .*$/gm) ?? [],
        room: name.startsWith('cmd/') ? 'cmd' : join('lib', dirname(name)),
        edits: edits.map(([, removed = '', added = '']) => ({
          removed: unmarked(removed),
          added: unmarked(added),
        })),
      };
    });
}

/** A change of one file. */
interface FoundEdit {
  readonly path: string;
  readonly start: number;
  readonly end: number;
  readonly added: string;
}

/**
 * Where the patch breaks the sources below a directory.
 *
 * @throws Error if the room does not have what is to be replaced exactly once
 */
export function findEdits(root: string, { name, room, edits }: Patch): readonly FoundEdit[] {
  const files = globSync(join(root, room, '**/*.ts')).map(
    (path) => [path, readFileSync(path, 'utf8')] as const,
  );
  return edits.map(({ removed, added }) => {
    const found = files.flatMap(([path, text]) =>
      Array.from(text.matchAll(anyLayout(removed)), ({ index, 0: { length } }) => {
        return { path, start: index, end: index + length, added };
      }),
    );
    const [edit] = found;
    if (edit !== undefined && found.length === 1) return edit;
    throw new Error(
      `the fault ${name} replaces code that ${room} has ${found.length} times instead of once: ${removed}; ` +
        'if that code has changed, let the patch break what is there now; if it has gone, delete the patch',
    );
  });
}

/** Breaks the sources below a directory, and returns a function that mends them. */
export function breakSources(root: string, patch: Patch): () => void {
  // From the end of a file to its beginning, so that an edit does not move others.
  const edits = findEdits(root, patch).toSorted((a, b) => b.start - a.start);
  const before = new Map(edits.map(({ path }) => [path, readFileSync(path, 'utf8')]));
  for (const { path, start, end, added } of edits) {
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.slice(0, start) + added + text.slice(end));
  }
  return () => {
    for (const [path, text] of before) writeFileSync(path, text);
  };
}

/** Matches a code whatever white space the formatter puts between its words and signs. */
function anyLayout(code: string): RegExp {
  const tokens = code.match(/\w+|[^\w\s]/g) ?? [];
  return new RegExp(tokens.map((token) => token.replace(/\W/, '\\$&')).join('\\s*'), 'g');
}

function unmarked(lines: string): string {
  return lines.replace(/^[-+] ?/gm, '').trim();
}

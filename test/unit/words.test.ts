import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');

/** Names that exported types share: ranges and families of several layers. */
const SHARED = ['Family', 'Range'];

interface Exported {
  readonly file: string;
  readonly kind: string;
  readonly name: string;
}

const files = globSync('{cmd,lib}/**/*.ts', { cwd: ROOT }).filter((file) => !file.includes('.generated.'));
const names = files.flatMap((file) => exportedIn(file, readFileSync(join(ROOT, file), 'utf8')));

describe('exported names', () => {
  it('and names of files have none of the words that the table in CONTRIBUTING replaces', () => {
    const replaced = replacedWords(readFileSync(join(ROOT, '.github/CONTRIBUTING.md'), 'utf8'));
    assert.ok(replaced.includes('fate') && replaced.includes('neighbours'), replaced.join());
    const all = [...names, ...files.map((file) => ({ file, name: basename(file, '.ts') }))];
    const wrong = all.filter(({ name }) => wordsOf(name).some((word) => replaced.includes(word)));
    assert.deepEqual(wrong.map(describeName), []);
  });

  it('of types mean one thing each', () => {
    const types = names.filter(({ kind }) => ['class', 'interface', 'type'].includes(kind));
    const shared = [...Map.groupBy(types, ({ name }) => name)]
      .filter(([name, all]) => all.length > 1 && !SHARED.includes(name))
      .flatMap(([, all]) => all.map(describeName));
    assert.deepEqual(shared, []);
  });
});

function exportedIn(file: string, text: string): readonly Exported[] {
  const declaration = /^export (?:async )?(function\*?|const|class|interface|type) (\w+)/gm;
  return Array.from(text.matchAll(declaration), ([, kind = '', name = '']) => ({ file, kind, name }));
}

/** `readFlows`, `LOOK_AGAIN_MS` and `kernel-events` as words in lower case. */
function wordsOf(name: string): readonly string[] {
  const words = name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g) ?? [];
  return words.map((word) => word.toLowerCase());
}

/** The words in the first column of the table `not`, `but`, each also in the plural. */
function replacedWords(page: string): readonly string[] {
  const [, rows = ''] = /^\| not \| but \|\n.*\n((?:\|.*\n)+)/m.exec(page) ?? [];
  return [...rows.matchAll(/^\| ([^|]+) \|/gm)]
    .flatMap(([, cell = '']) => cell.split(', '))
    .flatMap((word) => [word, `${word}s`]);
}

function describeName({ file, name }: Pick<Exported, 'file' | 'name'>): string {
  return `${file}: ${name}`;
}

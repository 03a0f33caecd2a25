import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/** Every page of the documentation, paths from the root. */
export const PAGES: readonly string[] = globSync('{*.md,.github/**/*.md,examples/**/*.md,test/bench/*.md}', {
  cwd: ROOT,
}).toSorted();

/** The text of a file, path from the root. */
export function read(path: string): string {
  return readFileSync(`${ROOT}${path}`, 'utf8');
}

/** What stands below a heading, up to the next heading of any level. */
export function section(page: string, title: string): string {
  const [, text] = page.split(new RegExp(`^#+ ${title}\\n`, 'm'));
  assert.ok(text !== undefined, `there is no heading "${title}"`);
  // In a fenced block a comment looks like a heading.
  const lines = text.split('\n');
  let fenced = false;
  const end = lines.findIndex((line) => {
    if (line.trimStart().startsWith('```')) fenced = !fenced;
    return !fenced && /^#+ /.test(line);
  });
  return lines.slice(0, end === -1 ? lines.length : end).join('\n');
}

/** The contents of the fenced blocks of a language; the indent of a block in a list is taken off. */
export function blocks(text: string, language: string): readonly string[] {
  const fence = new RegExp(`^( *)\`\`\`${language}\\n(.*?)^\\1\`\`\`$`, 'gms');
  return [...text.matchAll(fence)].map(([, indent = '', content = '']) =>
    content.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
}

/** The first block of a language. */
export function block(text: string, language: string): string {
  const [first] = blocks(text, language);
  assert.ok(first !== undefined, `no block of ${language}`);
  return first;
}

/** The text without its fenced blocks. */
export function prose(text: string): string {
  return text.replaceAll(/^( *)```.*?^\1```$/gms, '');
}

/** Where the links of a page lead to, images among them. */
export function links(page: string): readonly string[] {
  return [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
}

/** What a link can name behind `#` in a page, as GitHub makes it of the headings. */
export function anchors(page: string): readonly string[] {
  return [...prose(page).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
}

/** The cells of a column of the first table, code marks taken off; the head comes first. */
export function column(text: string, index: number): readonly string[] {
  const [table = ''] = /^\|.*\|$(?:\n\|.*\|$)*/m.exec(text) ?? [];
  const rows = table.split('\n').map((row) => row.split(/(?<!\\)\|/).slice(1, -1));
  return rows
    .filter((_, row) => row !== 1)
    .map((cells) => (cells[index] ?? '').trim().replace(/^`(.*)`$/, '$1'));
}

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

const ROOT = new URL('../../../', import.meta.url);

/** The text of a page. */
export const pageText = (page: string): Promise<string> => readFile(new URL(page, ROOT), 'utf8');

/** The text of a page below a heading of its second level. */
export async function sectionOf(page: string, heading: string): Promise<string> {
  const text = await pageText(page);
  const [, section] = new RegExp(`^## ${heading}$([\\s\\S]*?)(?:^## |(?![\\s\\S]))`, 'm').exec(text) ?? [];
  return section ?? assert.fail(`${page} has no section "${heading}"`);
}

/** The commands of kubectl that begin a line, each as its arguments, without the namespace of the base. */
export function kubectlCommands(section: string): readonly (readonly string[])[] {
  return [...section.matchAll(/^kubectl (?:-n kube-system )?(.*)$/gm)].map(([, line = '']) =>
    [...line.replace(/ +#.*$/, '').matchAll(/(?:'[^']*'|[^\s'])+/g)].map(([word]) =>
      word.replaceAll("'", ''),
    ),
  );
}

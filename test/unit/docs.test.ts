import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PAGES = globSync('{*.md,{.github,docs,examples,test}/**/*.md}', { cwd: ROOT });

describe('the links of the documentation', () => {
  for (const page of PAGES) {
    it(`lead to files and headings that exist, in ${page}`, () => {
      const links = [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
      const relative = links.filter((link) => !link.startsWith('https:'));
      assert.deepEqual(
        relative.filter((link) => !leadsSomewhere(page, link)),
        [],
      );
    });
  }
});

/** Whether the target of a link exists; a link that begins with `#` leads to a heading of its own page. */
function leadsSomewhere(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(ROOT, target))) return false;
  return anchor === undefined || anchors(target).includes(anchor);
}

/** The anchors that GitHub makes of the headings of a page. */
function anchors(page: string): readonly string[] {
  return [...prose(page).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
}

/** The text of a page without its fenced blocks. */
function prose(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8').replaceAll(/^( *)```.*?^\1```$/gms, '');
}

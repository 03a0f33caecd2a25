import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { anchorOf, PAGES as GENERATED, generatedFiles, generatedTables } from '../../build/docs.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PAGES = globSync('{*.md,{.github,docs,examples,test}/**/*.md}', { cwd: ROOT });

/** A fenced block. */
const FENCED = /^( *)```.*?^\1```$/gms;

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

describe('what the code generates', () => {
  for (const [path, text] of Object.entries(generatedFiles())) {
    it(`is in ${path} as the code says; \`node build/docs.ts\` writes it anew`, () => {
      assert.equal(readFileSync(join(ROOT, path), 'utf8'), text);
    });
  }

  it('has each table in one page', () => {
    const all = GENERATED.map((page) => readFileSync(page, 'utf8')).join('');
    for (const name of Object.keys(generatedTables()))
      assert.equal(all.split(`<!-- ${name}: generated`).length, 2, name);
  });
});

describe('a page that is longer than two screens', () => {
  for (const page of GENERATED) {
    const text = readFileSync(page, 'utf8');
    if (text.split('\n').length <= 120) continue;
    it(`links to each of its sections: ${basename(page)}`, () => {
      const sections = [...text.replaceAll(FENCED, '').matchAll(/^## (.*)$/gm)];
      const links = sections.map(([, title = '']) => `](#${anchorOf(title)})`);
      assert.notEqual(links.length, 0);
      assert.deepEqual(
        links.filter((link) => !text.includes(link)),
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

/** The anchors of the headings of a page. */
function anchors(page: string): readonly string[] {
  return [...prose(page).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => anchorOf(title));
}

/** The text of a page without its fenced blocks. */
function prose(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8').replaceAll(FENCED, '');
}

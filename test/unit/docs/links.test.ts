import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { anchors, links, PAGES, read } from './markdown.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

describe('the links', () => {
  it('are looked at in every page', () => {
    for (const page of ['README.md', 'SECURITY.md', 'CHANGELOG.md', '.github/CONTRIBUTING.md'])
      assert.ok(PAGES.includes(page), page);
    for (const page of ['migration', 'troubleshooting', 'kubernetes/README', 'prometheus/runbook'])
      assert.ok(PAGES.includes(`examples/${page}.md`), page);
  });

  for (const page of PAGES) {
    it(`of ${page} lead to files and headings that there are`, () => {
      const lost = links(read(page)).filter((link) => !/^https:/.test(link) && !leadsSomewhere(page, link));
      assert.deepEqual(lost, []);
    });
  }

  it('are not the only ones that name a file: who contributes is told where to find things', () => {
    const named = [
      ...read('.github/CONTRIBUTING.md').matchAll(/`((?:cmd|lib|build|test|examples|schemas)\/[^` ]*)`/g),
    ];
    assert.ok(named.length > 8);
    const lost = named.flatMap(([, path = '']) => (existsSync(join(ROOT, path)) ? [] : [path]));
    assert.deepEqual(lost, []);
  });

  it('from elsewhere lead to the pages of users', () => {
    const targets = ['README.md', 'examples/kubernetes/README.md', 'examples/prometheus/runbook.md'].flatMap(
      (page) => links(read(page)).map((link) => join(dirname(page), link.replace(/#.*/, ''))),
    );
    for (const page of ['examples/migration.md', 'examples/troubleshooting.md', '.github/CONTRIBUTING.md'])
      assert.ok(targets.includes(page), page);
  });
});

/** A link without a path is to a heading of its own page. */
function leadsSomewhere(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(ROOT, target))) return false;
  return anchor === undefined || anchors(read(target)).includes(anchor);
}

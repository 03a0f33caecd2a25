import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  bundledPackages,
  type Component,
  licencesText,
  npmComponent,
} from '../../../build/image/components.ts';
import { sbom } from '../../../build/image/sbom.ts';
import { cycloneDxErrors } from '../../image/cyclonedx.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

const DIRECTORY = 'node_modules/@scope/a';
const COMPONENT: Component = {
  name: '@scope/a',
  version: '1.0.0',
  licence: 'MIT',
  licenceTexts: ['text of a\n'],
  integrity: `sha512-${Buffer.alloc(64, 1).toString('base64')}`,
  needs: ['b'],
};
const WITH_PARTS: Component = {
  ...COMPONENT,
  name: 'b',
  licence: '(MIT OR Apache-2.0)',
  licenceTexts: ['text of b'],
  needs: ['left-out'],
  parts: { part: '7' },
};

describe('the packages of a bundle', () => {
  it('are those with a byte in it, also those in another package or in a scope', () => {
    const input = (bytesInOutput: number) => ({ bytesInOutput });
    const inputs = {
      'lib/own.ts': input(9),
      'node_modules/b/x.js': input(1),
      'node_modules/b/y.js': input(2),
      'node_modules/@scope/a/index.js': input(1),
      'node_modules/b/node_modules/c/index.js': input(1),
      'node_modules/shaken-off/index.js': input(0),
    };
    assert.deepEqual(bundledPackages({ outputs: { bin: { inputs } } }), [
      'node_modules/@scope/a',
      'node_modules/b',
      'node_modules/b/node_modules/c',
    ]);
  });

  const LICENSED = { license: 'MIT', dependencies: { b: '^1.0.0' } };
  const LOCKED = { version: '1.0.0', integrity: COMPONENT.integrity ?? '' };

  it('have the licence texts of their files and the digest of the lockfile', async () => {
    const files = { 'LICENSE.md': 'text of a\n', 'license.js': 'code' };
    assert.deepEqual(await component(LICENSED, files, LOCKED), COMPONENT);
  });

  it('have a line of package.json if they have no licence text', async () => {
    const { licenceTexts } = await component(LICENSED, {}, LOCKED);
    assert.match(licenceTexts.join(), /MIT/);
  });

  it('are refused if they are another version than in the lockfile', async () => {
    await assert.rejects(
      component(LICENSED, {}, { version: '2.0.0' }),
      /1\.0\.0, but 2\.0\.0 in package-lock/,
    );
  });

  it('are refused if nothing tells their licence', async () => {
    await assert.rejects(component({}, {}, LOCKED), /nothing tells the licence of @scope\/a/);
  });
});

describe('the bill of materials', () => {
  const subject = { version: 'v1', licence: 'Apache-2.0', time: 86_400, architecture: 'amd64' };
  const bill = JSON.parse(
    sbom(subject, [COMPONENT, WITH_PARTS]).replaceAll(/^.*@DEBIAN_(?:COMPONENTS|REFERENCES)@.*\n/gm, ''),
  );

  it('is valid by the schema of CycloneDX once Debian’s lines are replaced', () => {
    assert.deepEqual(cycloneDxErrors(bill), []);
    assert.notDeepEqual(cycloneDxErrors({ ...bill, components: 'none' }), []);
  });

  it('tells the time of the build, and has a number that only the same image has', () => {
    assert.equal(bill.metadata.timestamp, '1970-01-02T00:00:00.000Z');
    const numbers = ['amd64', 'amd64', 'arm64'].map((architecture) => sbom({ ...subject, architecture }, []));
    const [one, same, other] = numbers.map((text) => /"serialNumber": "(.*)"/.exec(text)?.[1]);
    assert.equal(one, same);
    assert.notEqual(one, other);
  });

  it('has URL, licence, digest and parts of each component', () => {
    const [a, b] = bill.components;
    assert.equal(a.purl, 'pkg:npm/%40scope/a@1.0.0');
    assert.deepEqual(a.licenses, [{ license: { id: 'MIT' } }]);
    assert.deepEqual(a.hashes, [{ alg: 'SHA-512', content: '01'.repeat(64) }]);
    assert.deepEqual(b.licenses, [{ expression: '(MIT OR Apache-2.0)' }]);
    const parts = b.components.map(({ name, version }: Component) => `${name} ${version}`);
    assert.deepEqual(parts, ['part 7']);
    assert.deepEqual(bill.dependencies, [
      { ref: 'ip-masq-agent', dependsOn: [a['bom-ref']] },
      { ref: a['bom-ref'], dependsOn: [b['bom-ref']] },
      { ref: b['bom-ref'], dependsOn: [] },
    ]);
  });
});

describe('the licences', () => {
  it('have the texts of all components under their names', () => {
    assert.match(
      licencesText([COMPONENT, WITH_PARTS]),
      /^@scope\/a 1\.0\.0\n=+\n\ntext of a\n\n=+\nb 1\.0\.0\n=+\n\ntext of b\n$/m,
    );
  });
});

/** The component of a package `@scope/a` 1.0.0 with these files, which package-lock.json has as `locked`. */
async function component(
  manifest: object,
  files: Readonly<Record<string, string>>,
  locked: { readonly version: string; readonly integrity?: string },
): Promise<Component> {
  await using root = await temporaryDirectory();
  const dir = join(root.path, DIRECTORY);
  await mkdir(dir, { recursive: true });
  const packageJson = JSON.stringify({ name: '@scope/a', version: '1.0.0', ...manifest });
  for (const [name, content] of Object.entries({ ...files, 'package.json': packageJson }))
    await writeFile(join(dir, name), content);
  return npmComponent(root.path, DIRECTORY, { packages: { [DIRECTORY]: locked } });
}

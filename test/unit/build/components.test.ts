import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { Component } from '../../../build/image/component.ts';
import { commonLicences, licencesText } from '../../../build/image/licences.ts';
import { bundledPackages, npmComponent } from '../../../build/image/npm-components.ts';
import { sbom } from '../../../build/image/sbom.ts';
import { partsOf } from '../../../build/image/stage.ts';
import { cycloneDxErrors } from '../../image/cyclonedx.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

const NPM: Component = {
  name: '@scope/a',
  version: '1.0.0',
  purl: 'pkg:npm/%40scope/a@1.0.0',
  licence: 'MIT',
  licenceTexts: ['text of a\n'],
  integrity: `sha512-${Buffer.alloc(64, 1).toString('base64')}`,
};
const DEBIAN: Component = {
  name: 'iptables',
  version: '1.8.9-2',
  purl: 'pkg:deb/debian/iptables@1.8.9-2?arch=amd64',
  licence: undefined,
  licenceTexts: [
    'See /usr/share/common-licenses/GPL-2. Also (/usr/share/common-licenses/Artistic), and GPL-2.',
  ],
  holds: { part: '7' },
};
const SUBJECT = {
  version: 'v1',
  licence: 'Apache-2.0',
  time: 86_400,
  properties: { baseImage: 'debian:12' },
};

describe('the parts of Node.js', () => {
  it('are what it tells a version of, but itself and its interfaces', () => {
    const versions = {
      node: '24.1.0',
      modules: '137',
      napi: '10',
      v8: '13.6',
      ngtcp2: '',
      nghttp3: undefined,
    };
    assert.deepEqual(partsOf(versions), { v8: '13.6' });
  });
});

describe('the packages of a bundle', () => {
  it('are those of which a byte is in it, one also where it is in another or in a scope', () => {
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

  it('are told with their licences, and the digest of the lockfile', async () => {
    await using root = await packageRoot(
      { license: 'MIT' },
      { 'LICENSE.md': 'text of a\n', 'license.js': 'code' },
    );
    const { version, integrity = '' } = NPM;
    const lockfile = { packages: { 'node_modules/@scope/a': { version, integrity } } };
    assert.deepEqual(npmComponent(root.path, 'node_modules/@scope/a', lockfile), {
      ...NPM,
      licenceTexts: ['text of a\n'],
    });
  });

  it('are told as what package.json says where they have no licence text', async () => {
    await using root = await packageRoot({ license: 'MIT' }, {});
    const lockfile = { packages: { 'node_modules/@scope/a': { version: '1.0.0' } } };
    const { licenceTexts } = npmComponent(root.path, 'node_modules/@scope/a', lockfile);
    assert.match(licenceTexts.join(), /no licence text\. Its package\.json says: MIT/);
  });

  for (const [what, manifest, version, message] of [
    [
      'another version than the lockfile',
      { license: 'MIT' },
      '2.0.0',
      /is 1\.0\.0, but 2\.0\.0 in package-lock/,
    ],
    ['no licence at all', {}, '1.0.0', /nothing tells the licence/],
  ] as const) {
    it(`are refused with ${what}`, async () => {
      await using root = await packageRoot(manifest, {});
      const lockfile = { packages: { 'node_modules/@scope/a': { version } } };
      assert.throws(() => npmComponent(root.path, 'node_modules/@scope/a', lockfile), message);
    });
  }
});

describe('the bill of materials', () => {
  it('is valid by the schema of CycloneDX, with every kind of component', () => {
    assert.deepEqual(cycloneDxErrors(JSON.parse(sbom(SUBJECT, [NPM, DEBIAN]))), []);
  });

  it('is checked by a schema that refuses what is wrong', () => {
    assert.notDeepEqual(cycloneDxErrors({ ...JSON.parse(sbom(SUBJECT, [NPM])), components: 'none' }), []);
  });

  it('has purl, licence, digest and parts of a component, and the time of the build', () => {
    const bom = JSON.parse(sbom(SUBJECT, [NPM, DEBIAN]));
    const [npm, debian] = ['@scope/a', 'iptables'].map((name) =>
      bom.components.find((one: { readonly name: string }) => one.name === name),
    );
    assert.equal(npm.purl, NPM.purl);
    assert.deepEqual(npm.licenses, [{ license: { id: 'MIT' } }]);
    assert.deepEqual(npm.hashes, [{ alg: 'SHA-512', content: '01'.repeat(64) }]);
    assert.deepEqual(
      debian.components.map(({ name, version }: Component) => `${name} ${version}`),
      ['part 7'],
    );
    assert.equal(bom.metadata.timestamp, '1970-01-02T00:00:00.000Z');
    assert.deepEqual(bom.metadata.properties, [{ name: 'ip-masq-agent:baseImage', value: 'debian:12' }]);
  });

  it('is the same text for the same input in another order', () => {
    assert.equal(sbom(SUBJECT, [NPM, DEBIAN]), sbom(SUBJECT, [DEBIAN, NPM]));
  });
});

describe('the licences', () => {
  it('have the texts of all, and once what Debian only refers to', () => {
    assert.deepEqual(commonLicences([NPM, DEBIAN]), [
      '/usr/share/common-licenses/Artistic',
      '/usr/share/common-licenses/GPL-2',
    ]);
    const text = licencesText([NPM, DEBIAN], { '/usr/share/common-licenses/GPL-2': 'text of GPL-2' });
    const order = [
      '@scope/a 1.0.0',
      'text of a',
      'iptables 1.8.9-2',
      '/usr/share/common-licenses/GPL-2\n',
      'text of GPL-2',
    ];
    const places = order.map((part) => text.indexOf(part));
    assert.ok(!places.includes(-1), text);
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
    );
  });
});

/** A project with one package, `@scope/a` 1.0.0. */
async function packageRoot(manifest: object, files: Readonly<Record<string, string>>) {
  const root = await temporaryDirectory();
  const dir = join(root.path, 'node_modules/@scope/a');
  await mkdir(dir, { recursive: true });
  const all = {
    ...files,
    'package.json': JSON.stringify({ name: '@scope/a', version: '1.0.0', ...manifest }),
  };
  for (const [name, content] of Object.entries(all)) await writeFile(join(dir, name), content);
  return root;
}

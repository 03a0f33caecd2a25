import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { installManifest } from '../../build/install-manifest.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { documentsOf } from './kustomize.ts';
import { objectsFrom } from './support.ts';

const VERSION = `v${packageJson.version}`;
const NAME = 'registry.example.com/ip-masq-agent';
const IMAGE = 'registry.example.com/team/ip-masq-agent';
const DIGEST = `sha256:${'ab'.repeat(32)}`;

describe('the manifest of a release', () => {
  const { yaml11, yaml12 } = documentsOf(installManifest(VERSION, `${IMAGE}@${DIGEST}`));

  it('is the base with image and version, as kustomize builds it', async () => {
    const built = await objectsFrom((examples) =>
      JSON.stringify({
        resources: [`${examples}/base`],
        images: [{ name: NAME, newName: IMAGE, digest: DIGEST }],
        labels: [{ pairs: { 'app.kubernetes.io/version': VERSION } }],
      }),
    );
    assert.deepEqual(yaml12, built);
  });

  it('is the same for readers of YAML 1.1 and 1.2', () => assert.deepEqual(yaml11, yaml12));
});

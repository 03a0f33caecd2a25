import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { writeLayout } from '../../../build/image/oci.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

const LAYER = Buffer.from('an archive'.repeat(100));

const IMAGE = {
  tag: 'v1.2.3',
  architecture: 'amd64',
  created: '2026-01-01T00:00:00Z',
  layers: [LAYER],
  config: {},
};

describe('an image layout', () => {
  for (const [compression, unpack] of [
    ['gzip', gunzipSync],
    ['zstd', zstdDecompressSync],
  ] as const)
    it(`has layers that are compressed with ${compression}, as their types say`, async () => {
      await using directory = await temporaryDirectory();
      const dir = join(directory.path, 'oci');
      const sizes = writeLayout(dir, { ...IMAGE, compression });
      const blob = (digest: string) => readFileSync(join(dir, 'blobs', digest.replace(':', '/')));
      const json = (bytes: Buffer) => JSON.parse(bytes.toString());
      const [{ digest }] = json(readFileSync(join(dir, 'index.json'))).manifests;
      const { layers, config } = json(blob(digest));
      assert.deepEqual(
        layers.map(({ mediaType, size }: { mediaType: string; size: number }) => [mediaType, size]),
        [[`application/vnd.oci.image.layer.v1.tar+${compression}`, sizes[0]]],
      );
      assert.deepEqual(unpack(blob(layers[0].digest)), LAYER);
      const sum = createHash('sha256').update(LAYER).digest('hex');
      assert.deepEqual(json(blob(config.digest)).rootfs.diff_ids, [`sha256:${sum}`]);
    });

  it('is refused with another compression', () => {
    assert.throws(() => writeLayout('/nonexistent', { ...IMAGE, compression: 'xz' }), /choose gzip or zstd/);
  });
});

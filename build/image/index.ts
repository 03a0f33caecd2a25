/**
 * Adds an image index of several architectures to an OCI image layout that has an image for each, tagged with its name.
 * Usage: node build/image/index.ts LAYOUT TAG ARCH...
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [layout = '', tag = '', ...architectures] = process.argv.slice(2);
const file = join(layout, 'index.json');
const { manifests } = JSON.parse(readFileSync(file, 'utf8'));
const NAME = 'org.opencontainers.image.ref.name';
const mediaType = 'application/vnd.oci.image.index.v1+json';

const text = JSON.stringify({
  schemaVersion: 2,
  mediaType,
  manifests: architectures.map((architecture) => {
    const { annotations: _, ...image } = manifests.find(
      ({ annotations }: { annotations: object }) => Object.entries(annotations)[0]?.[1] === architecture,
    );
    return { ...image, platform: { architecture, os: 'linux' } };
  }),
});
const hash = createHash('sha256').update(text).digest('hex');
writeFileSync(join(layout, 'blobs/sha256', hash), text);
const index = { mediaType, digest: `sha256:${hash}`, size: text.length, annotations: { [NAME]: tag } };
writeFileSync(file, JSON.stringify({ schemaVersion: 2, manifests: [index] }));

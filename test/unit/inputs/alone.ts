import type { TextFile } from '../../../lib/config/config-file.ts';
import { deliver, readManifest } from '../../../lib/inputs/manifest.ts';

/** What a file of manifests holds by itself; undefined if it is none. */
export function readAlone(file: TextFile) {
  const manifest = readManifest(file);
  return manifest && deliver([manifest]);
}

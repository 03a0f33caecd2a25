import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Releases of Debian whose nft and iptables tests use, oldest first. nft: 0.9.8, 1.0.6, 1.1.3, and 1.1.7 or newer. */
export const RELEASES = ['bullseye', 'bookworm', 'trixie', 'sid'] as const;

export type Release = (typeof RELEASES)[number];

const TOOLS = join(import.meta.dirname, '../../bin/tools');

/**
 * The path of nft of the release. It runs in any box; where `build/setup.sh skew` could not download it, there is none.
 */
export function oldNft(release: Release): string {
  return join(TOOLS, release, 'bin/nft');
}

/** Why a test of the release is to be skipped; false if its tools are there. */
export function withoutTools(release: Release): string | false {
  return !existsSync(oldNft(release)) && `no tools of Debian's ${release}: run \`build/setup.sh skew\``;
}

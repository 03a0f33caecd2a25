import { existsSync } from 'node:fs';
import { copyFile, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, succeed } from '../lab/run.ts';

const CACHE = fileURLToPath(new URL('../../bin/test', import.meta.url));
const FETCH = fileURLToPath(new URL('../../build/image/fetch.sh', import.meta.url));
const SUITE = 'bookworm';
const PATIENCE_MS = 600_000;

/**
 * An archive of the root directory of a Debian 12, for `docker import`. It holds the packages of the images, so that a
 * build needs no network. It comes from Debian's archive, with network, once; then it is kept.
 */
export async function debianRoot(): Promise<string> {
  const archive = join(CACHE, `${SUITE}.tar`);
  if (existsSync(archive)) return archive;
  const dir = join(CACHE, `${SUITE}-${process.pid}`);
  try {
    await mkdir(dir, { recursive: true });
    // In a mount namespace, so that nothing stays mounted below the directory whatever happens.
    await must('unshare', '--mount', 'debootstrap', '--variant=minbase', SUITE, dir);
    await copyFile(FETCH, join(dir, 'tmp/fetch.sh'));
    for (const architecture of ['amd64', 'arm64'])
      await must('chroot', dir, 'sh', '/tmp/fetch.sh', architecture, `/debs/${architecture}`);
    await must('chroot', dir, 'apt-get', 'clean');
    await must('tar', '-c', '-f', `${archive}.tmp`, '--exclude=./dev/*', '-C', dir, '.');
    await rename(`${archive}.tmp`, archive);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  return archive;
}

async function must(file: string, ...args: readonly string[]): Promise<void> {
  const env = {
    PATH: `${process.env['PATH']}:/usr/sbin:/sbin`,
    LC_ALL: 'C',
    DEBIAN_FRONTEND: 'noninteractive',
  };
  await succeed(run({ file, args }, env, { timeoutMs: PATIENCE_MS }));
}

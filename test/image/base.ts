import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WANTED } from '../../build/image/contents.ts';
import { run } from '../lab/run.ts';
import { OTHER } from './support.ts';

const CACHE = fileURLToPath(new URL('../../bin/test', import.meta.url));
const SUITE = 'bookworm';
const PATIENCE_MS = 600_000;

/**
 * An archive of the root directory of a Debian 12, for `docker import`: all that an image build needs, so that it needs
 * no network. It is made from the archive of Debian, with network, once; then it is kept.
 */
export async function debianRoot(): Promise<string> {
  const archive = join(CACHE, `${SUITE}.tar`);
  if (existsSync(archive)) return archive;
  const dir = join(CACHE, `${SUITE}-${process.pid}`);
  try {
    await mkdir(dir, { recursive: true });
    const include = `--include=${WANTED.join(',')}`;
    // In a mount namespace, so that nothing stays mounted below the directory whatever happens.
    await must('unshare', ['--mount', 'debootstrap', '--variant=minbase', include, SUITE, dir]);
    await must('chroot', [dir, 'apt-get', 'clean']);
    await fetchOther(dir);
    await must('tar', ['-c', '-f', `${archive}.tmp`, '--exclude=./dev/*', '-C', dir, '.']);
    await rename(`${archive}.tmp`, archive);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  return archive;
}

/** Leaves the packages of the other architecture where apt keeps what it has fetched, for a build without network. */
async function fetchOther(dir: string): Promise<void> {
  await writeFile(join(dir, 'tmp/status'), '');
  const options = [
    'Dir::State::status=/tmp/status',
    `APT::Architecture=${OTHER}`,
    `APT::Architectures::=${OTHER}`,
  ];
  const flags = options.map((option) => `-o${option}`);
  await must('chroot', [dir, 'apt-get', '-qq', ...flags, 'update']);
  const install = ['install', '--yes', '--no-install-recommends', '--download-only', ...WANTED];
  await must('chroot', [dir, 'apt-get', '-qq', ...flags, ...install]);
  await rm(join(dir, 'tmp/status'));
}

async function must(file: string, args: readonly string[]): Promise<void> {
  const env = {
    PATH: `${process.env['PATH']}:/usr/sbin:/sbin`,
    LC_ALL: 'C',
    DEBIAN_FRONTEND: 'noninteractive',
  };
  const { code, stdout, stderr } = await run({ file, args }, env, { timeoutMs: PATIENCE_MS });
  if (code !== 0) throw new Error(`${file} ${args.join(' ')}: ${stdout.slice(-1000)}${stderr}`);
}

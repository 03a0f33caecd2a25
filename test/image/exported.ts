import { type Dirent, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import type { Docker } from './docker.ts';

/** The root directory of an image, as a directory here. */
export type ExportedImage = Awaited<ReturnType<typeof exportImage>>;

/** What Docker makes for the container, and what is no part of the image. */
const OF_DOCKER = [
  '.dockerenv',
  'dev',
  'proc',
  'sys',
  'etc/hostname',
  'etc/hosts',
  'etc/resolv.conf',
  'etc/mtab',
];

/** Unpacks an image. All paths are those in the image. */
export async function exportImage(docker: Docker, image: string) {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const archive = join(dir, 'image.tar');
  const id = await docker.must('create', image);
  await docker.must('export', '--output', archive, id);
  await docker.must('rm', id);
  const root = join(dir, 'root');
  mkdirSync(root);
  const excluded = OF_DOCKER.map((name) => `--exclude=${name}`);
  const args = ['-x', '-p', '--same-owner', '-f', archive, '-C', root, ...excluded];
  await succeed(run({ file: 'tar', args }, { PATH: process.env['PATH'] ?? '' }));
  const entries = entriesBelow(root).filter((entry) => !entry.isSymbolicLink());
  const pathsOf = (kept: readonly Dirent[]) =>
    kept.map(({ parentPath, name }) => join(parentPath, name).slice(root.length)).toSorted();
  const owned = stack.move();
  return {
    /** Where a path is here. */
    path: (inImage: string) => join(root, inImage),
    bytes: (inImage: string) => readFileSync(join(root, inImage)),
    text: (inImage: string) => readFileSync(join(root, inImage), 'utf8'),
    names: (inImage: string) => readdirSync(join(root, inImage)).toSorted(),
    /** Files and directories, without links. */
    all: pathsOf(entries),
    files: pathsOf(entries.filter((entry) => entry.isFile())),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Not by the option `recursive`, which follows links. */
function entriesBelow(dir: string): readonly Dirent[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => [
    entry,
    ...(entry.isDirectory() ? entriesBelow(join(dir, entry.name)) : []),
  ]);
}

import { closeSync, type Dirent, mkdirSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { run, succeed } from '../lab/run.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import type { Docker } from './docker.ts';

/** The root directory of an image, as a directory here. */
export interface ExportedImage extends AsyncDisposable {
  /** Where a path of the image is here. */
  path(inImage: string): string;
  text(inImage: string): string;
  json(inImage: string): unknown;
  names(inImage: string): readonly string[];
  /** All files and directories but links, by their path in the image. */
  readonly all: readonly string[];
  /** All files, by their path in the image. */
  readonly files: readonly string[];
  /** The first bytes of a file. */
  head(inImage: string, length: number): Buffer;
}

export async function exportImage(docker: Docker, image: string): Promise<ExportedImage> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const id = await docker.must('create', image);
  await docker.must('export', '--output', join(dir, 'image.tar'), id);
  await docker.must('rm', id);
  const root = join(dir, 'root');
  const env = { PATH: process.env['PATH'] ?? '' };
  mkdirSync(root);
  const extract = ['-x', '-p', '--same-owner', '-f', join(dir, 'image.tar'), '-C', root];
  // What Docker makes for the container, and what is no part of the image.
  const ofDocker = [
    '.dockerenv',
    'dev',
    'proc',
    'sys',
    'etc/hostname',
    'etc/hosts',
    'etc/resolv.conf',
    'etc/mtab',
  ];
  await succeed(
    run({ file: 'tar', args: [...extract, ...ofDocker.map((name) => `--exclude=${name}`)] }, env),
  );
  const entries = entriesBelow(root);
  const pathsOf = (kept: readonly Dirent[]) =>
    kept.map(({ parentPath, name }) => join(parentPath, name).slice(root.length)).toSorted();
  const path = (inImage: string) => join(root, inImage);
  const text = (inImage: string) => readFileSync(path(inImage), 'utf8');
  const owned = stack.move();
  return {
    path,
    text,
    json: (inImage) => JSON.parse(text(inImage)),
    names: (inImage) => readdirSync(path(inImage)).toSorted(),
    all: pathsOf(entries.filter((entry) => !entry.isSymbolicLink())),
    files: pathsOf(entries.filter((entry) => entry.isFile())),
    head: (inImage, length) => {
      const file = openSync(path(inImage), 'r');
      try {
        const bytes = Buffer.alloc(length);
        return bytes.subarray(0, readSync(file, bytes));
      } finally {
        closeSync(file);
      }
    },
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

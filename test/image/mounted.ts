import { type Dirent, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, succeed } from '../lab/run.ts';
import { ownEnvironment } from './make.ts';

/** The root directory of an image, as a directory here. All paths are those in the image. */
export type MountedImage = Awaited<ReturnType<typeof mountImage>>;

/** Mounts an image that buildah has. */
export async function mountImage(image: string) {
  const buildah = async (...args: string[]) =>
    (await succeed(run({ file: 'buildah', args }, ownEnvironment()))).trim();
  const container = await buildah('from', '--pull-never', image);
  const root = await buildah('mount', container);
  const entries = entriesBelow(root).filter((entry) => !entry.isSymbolicLink());
  const pathsOf = (kept: readonly Dirent[]) =>
    kept.map(({ parentPath, name }) => join(parentPath, name).slice(root.length)).toSorted();
  return {
    /** Where a path is here. */
    path: (inImage: string) => join(root, inImage),
    text: (inImage: string) => readFileSync(join(root, inImage), 'utf8'),
    names: (inImage: string) => readdirSync(join(root, inImage)).toSorted(),
    /** Files and directories, without links. */
    all: pathsOf(entries),
    files: pathsOf(entries.filter((entry) => entry.isFile())),
    [Symbol.asyncDispose]: async () => {
      await buildah('rm', container);
    },
  };
}

/** Not by the option `recursive`, which follows links. */
function entriesBelow(dir: string): readonly Dirent[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => [
    entry,
    ...(entry.isDirectory() ? entriesBelow(join(dir, entry.name)) : []),
  ]);
}

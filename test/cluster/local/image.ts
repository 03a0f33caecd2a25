import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { arch } from 'node:os';
import { dirname, join } from 'node:path';
import { run, succeed } from '../../lab/run.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { toolEnvironment } from './environment.ts';
import { type Image, PROGRAMS } from './options.ts';

export const PAUSE_IMAGE = 'localhost/pause:1';

/** The image whose process keeps a pod's namespaces. */
export async function pauseImage(directory: string): Promise<Image> {
  const files = { pause: join(PROGRAMS, 'pause') };
  return await makeImage({ name: PAUSE_IMAGE, files, entrypoint: '/pause' }, join(directory, 'pause.tar'));
}

export interface ImageContent {
  readonly name: string;
  /** By their paths in the image, the files of this machine that they are copies of. */
  readonly files: Readonly<Record<string, string>>;
  readonly entrypoint: string;
}

/** An image as `docker save` would write it, with one layer. */
export async function makeImage({ name, files, entrypoint }: ImageContent, archive: string): Promise<Image> {
  await using work = await temporaryDirectory();
  const at = (path: string): string => join(work.path, path);
  for (const [path, source] of Object.entries(files)) {
    await mkdir(dirname(at(`root/${path}`)), { recursive: true });
    await copyFile(source, at(`root/${path}`));
  }
  await pack(at('layer.tar'), at('root'), await readdir(at('root')));
  const layer = createHash('sha256')
    .update(await readFile(at('layer.tar')))
    .digest('hex');
  const config = {
    architecture: arch() === 'x64' ? 'amd64' : arch(),
    os: 'linux',
    config: { Entrypoint: [entrypoint], Env: ['PATH=/bin'] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${layer}`] },
  };
  const manifest = [{ Config: 'config.json', RepoTags: [name], Layers: ['layer.tar'] }];
  await writeFile(at('config.json'), JSON.stringify(config));
  await writeFile(at('manifest.json'), JSON.stringify(manifest));
  await mkdir(dirname(archive), { recursive: true });
  await pack(archive, work.path, ['manifest.json', 'config.json', 'layer.tar']);
  return { name, archive };
}

async function pack(archive: string, directory: string, names: readonly string[]): Promise<void> {
  const args = ['--create', '--file', archive, '--owner=0', '--group=0', '--directory', directory, ...names];
  await succeed(run({ file: 'tar', args }, toolEnvironment()));
}

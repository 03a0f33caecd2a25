import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { arch } from 'node:os';
import { join } from 'node:path';
import { run, succeed } from '../../lab/run.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { toolEnvironment } from './environment.ts';
import { type Image, PROGRAMS } from './options.ts';

export const PAUSE_IMAGE = 'localhost/pause:1';

/** The image whose process keeps a pod's namespaces, as `docker save` would write it: one layer with one program. */
export async function pauseImage(directory: string): Promise<Image> {
  await using work = await temporaryDirectory();
  const at = (name: string): string => join(work.path, name);
  await mkdir(at('root'));
  await copyFile(join(PROGRAMS, 'pause'), at('root/pause'));
  await pack(at('layer.tar'), at('root'), ['pause']);
  const layer = createHash('sha256')
    .update(await readFile(at('layer.tar')))
    .digest('hex');
  const config = {
    architecture: arch() === 'x64' ? 'amd64' : arch(),
    os: 'linux',
    config: { Entrypoint: ['/pause'] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${layer}`] },
  };
  const manifest = [{ Config: 'config.json', RepoTags: [PAUSE_IMAGE], Layers: ['layer.tar'] }];
  await writeFile(at('config.json'), JSON.stringify(config));
  await writeFile(at('manifest.json'), JSON.stringify(manifest));
  const archive = join(directory, 'pause.tar');
  await pack(archive, work.path, ['manifest.json', 'config.json', 'layer.tar']);
  return { name: PAUSE_IMAGE, archive };
}

async function pack(archive: string, directory: string, names: readonly string[]): Promise<void> {
  const args = ['--create', '--file', archive, '--owner=0', '--group=0', '--directory', directory, ...names];
  await succeed(run({ file: 'tar', args }, toolEnvironment()));
}

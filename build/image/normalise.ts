/**
 * Makes an image the same whenever and by whatever it was built: Docker's older builders write the time of the build and
 * the architecture of their machine into it, and take no other. Its layers stay as they are.
 * Usage: node build/image/normalise.ts DOCKER IMAGE ARCH SECONDS
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The config of an image, as far as it is kept; see the OCI image specification. */
export interface ImageConfig {
  readonly architecture: string;
  readonly os: string;
  readonly created?: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly rootfs: { readonly type: string; readonly diff_ids: readonly string[] };
  readonly history?: readonly {
    readonly created: string;
    readonly created_by: string;
    readonly empty_layer?: boolean;
  }[];
}

/** The part of `manifest.json` in what `docker save` writes. */
interface SavedImage {
  readonly Config: string;
  readonly Layers: readonly string[];
}

const KEPT = ['Entrypoint', 'Env', 'Labels', 'User'];

/**
 * A config that tells how to run the image, what it is made of and by which instructions, and no more.
 *
 * @param dockerfile its last stage made the image, a layer for each COPY.
 * @param time that all is said to have been made at, in seconds since the epoch.
 */
export function normalised(
  { os, config, rootfs }: ImageConfig,
  dockerfile: string,
  architecture: string,
  time: number,
): ImageConfig {
  const created = new Date(time * 1000).toISOString();
  const lastStage =
    dockerfile
      .replaceAll(/\\\n\s*/g, '')
      .split(/^FROM /m)
      .at(-1) ?? '';
  const steps = lastStage
    .split('\n')
    .slice(1)
    .filter((line) => /^[A-Z]/.test(line));
  const isLayer = (step: string) => step.startsWith('COPY ');
  if (steps.filter(isLayer).length !== rootfs.diff_ids.length)
    throw new Error('the image has not a layer for each COPY of the Dockerfile');
  return {
    architecture,
    os,
    created,
    config: Object.fromEntries(KEPT.map((key) => [key, config[key]])),
    rootfs,
    history: steps.map((step) => ({
      created,
      created_by: step,
      ...(isLayer(step) ? {} : { empty_layer: true }),
    })),
  };
}

function normalise(docker: string, image: string, architecture: string, time: number): void {
  const dir = mkdtempSync(join(tmpdir(), 'ip-masq-image-'));
  try {
    const archive = join(dir, 'image.tar');
    const run = (file: string, ...args: readonly string[]) =>
      execFileSync(file, args, { stdio: ['ignore', 'ignore', 'inherit'], encoding: 'utf8' });
    run(docker, 'save', '--output', archive, image);
    run('tar', '-x', '-f', archive, '-C', dir);
    const [saved]: readonly SavedImage[] = JSON.parse(readFileSync(join(dir, 'manifest.json'), 'utf8'));
    if (saved === undefined) throw new Error(`docker save wrote no image ${image}`);
    const { Config, Layers } = saved;
    const dockerfile = readFileSync(
      join(import.meta.dirname, '../../bin/image', architecture, 'Dockerfile'),
      'utf8',
    );
    const before: ImageConfig = JSON.parse(readFileSync(join(dir, Config), 'utf8'));
    const config = normalised(before, dockerfile, architecture, time);
    writeFileSync(join(dir, 'config.json'), JSON.stringify(config));
    const manifest = [{ Config: 'config.json', RepoTags: [image], Layers }];
    writeFileSync(join(dir, 'manifest.json'), JSON.stringify(manifest));
    run('tar', '-c', '-f', archive, '-C', dir, 'manifest.json', 'config.json', ...Layers);
    run(docker, 'load', '--quiet', '--input', archive);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const [docker = '', image = '', architecture = '', seconds = ''] = process.argv.slice(2);
  if (!/^\d+$/.test(seconds)) throw new Error('usage: normalise.ts DOCKER IMAGE ARCH SECONDS');
  normalise(docker, image, architecture, Number(seconds));
}

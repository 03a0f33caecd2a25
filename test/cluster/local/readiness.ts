import { access } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { run, succeed } from '../../lab/run.ts';
import { goEnvironment, goVersion } from './go.ts';
import { makeImage } from './image.ts';
import { CLUSTER_BIN, type Image } from './options.ts';

/** The images of node-readiness-controller's two programs. */
export const CONTROLLER_IMAGE = 'localhost/node-readiness-controller:test';
export const REPORTER_IMAGE = 'localhost/node-readiness-reporter:test';

const DIRECTORY = join(CLUSTER_BIN, 'readiness');
/** As in its Dockerfiles. */
const NOBODY = '65532:65532';
const MINUTES_MS = 1_800_000;
const PROGRAMS = [
  { name: CONTROLLER_IMAGE, file: 'manager', source: './cmd' },
  { name: REPORTER_IMAGE, file: 'reporter', source: './cmd/readiness-condition-reporter' },
] as const;

/** A checkout of node-readiness-controller, and the images that are made of it. */
export interface Readiness {
  readonly source: string;
  readonly images: readonly Image[];
}

/**
 * Builds both programs of a checkout, and their images as its Dockerfiles name the programs.
 *
 * @throws {Error} if the directory is no such checkout, or cannot be built
 */
export async function readinessOf(directory: string, say: (line: string) => void): Promise<Readiness> {
  const source = resolve(directory);
  await access(join(source, 'config/crd')).catch(() => {
    throw new Error(`READINESS_SOURCE=${directory} is no checkout of node-readiness-controller`);
  });
  say(`building node-readiness-controller with ${await goVersion()}, which takes minutes the first time`);
  const images: Image[] = [];
  for (const { name, file, source: folder } of PROGRAMS) {
    const program = join(DIRECTORY, file);
    const flags = ['-mod=readonly', '-trimpath', '-buildvcs=false', '-ldflags=-s -w'];
    const args = ['build', '-C', source, ...flags, '-o', program, folder];
    await succeed(run({ file: 'go', args }, goEnvironment(), { timeoutMs: MINUTES_MS }));
    const content = { name, files: { [file]: program }, entrypoint: `/${file}`, user: NOBODY };
    images.push(await makeImage(content, join(DIRECTORY, `${file}.tar`)));
  }
  return { source, images };
}
